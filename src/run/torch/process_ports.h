// The real ports of a process: its bus, store, engine, trainer, boxes and external commands, as the
// roles of the process need them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/agent_runner.h"
#include "bus/memory/memory_bus.h"
#include "bus/redis/redis_bus.h"
#include "bus/split_bus.h"
#include "core/threads.h"
#include "engine/torch/torch_engine.h"
#include "judge/http_judge_port.h"
#include "learner/frozen_trainer.h"
#include "learner/torch/trainer_thread.h"
#include "live/guard_desk.h"
#include "live/live_operator.h"
#include "live/live_run.h"
#include "live/release_desk.h"
#include "memory/case_shelf.h"
#include "memory/torch/model_keys.h"
#include "model/tokenizer.h"
#include "model/torch/model.h"
#include "reward/scorer_port.h"
#include "run/gateway_host.h"
#include "run/run.h"
#include "run/torch/judge_models.h"
#include "run/torch/weights_watch.h"
#include "store/run_db.h"
#include "store/store_thread.h"
#include "teacher/torch/model_teacher.h"
#include "tools/tool_executor.h"

namespace tidemill {

// In the order they are made; taken down in reverse.
class ProcessPorts final : public PortHost {
 public:
  ProcessPorts(const RunConfig& config, const RunRequest& request)
      : config_(config), request_(request) {}

  // Opens what the roles need. `start` gets what the loops begin with. Failures name the file or
  // key.
  Status Open(RunStart& start);

  const Ports& ports() const override { return ports_; }
  std::vector<Use> Usage() const override;
  std::map<std::string, double> Levels() const override;
  std::vector<const CounterSet*> counters() const override;
  void Sink(MetricSink& sink) const override;
  std::string GatewayFigures() const override {
    return gateway_ ? gateway_->gateway().FiguresJson() : "";
  }
  std::vector<std::string> own_topics() const override;
  int ranks_lost() const override { return trainer_ ? trainer_->ranks_lost() : 0; }
  WeightPublisher* publisher() override { return publisher_; }
  std::vector<LiveWatch*> watches() override;
  Status Watch() override;

  const RunConfig& config() const { return config_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Status OpenTasks();
  Status PlanMemoryHere();  // process_memory.cc
  Status Prepare(const std::string& file, std::vector<v1::Task>* tasks);
  Status OpenStore(RunStart& start);
  Status OpenBus(RunStart& start);
  Status OpenPublisher(RunStart& start);
  Status OpenEngine(RunStart& start);
  Status OpenGateway(const RunStart& start);
  Status OpenAgents(EpisodeRecorder& episodes);
  // process_live.cc
  Status OpenOperator(GatewayUse& use);
  Result<std::unique_ptr<TurnRecorder>> OpenLive(const ServedPolicy& policy);
  LiveMemory LiveMemoryHere(int64_t context_tokens) const;
  Status OpenRelease(const RunStart& start, GatewayUse& use);
  void OpenGuards(GatewayUse& use);
  Status OpenTrainer(const RunStart& start);
  // process_teacher.cc
  Status OpenTeacher(const RunStart& start);
  // process_keys.cc
  Status OpenKeys();
  Status CheckKeys(const PromptEncoder& encoder) const;
  Status OpenTeacherEndpoint();
  Result<TeacherWeights> TeacherWeightsFrom(const RunStart& start);
  Status OpenTools();
  Status OpenScorers();
  Status CheckPrompts(int32_t max_context) const;
  Status OpenFrozen();
  Status CheckFrozen();
  bool alone() const { return request_.fleet == nullptr; }

  RunConfig config_;
  const RunRequest request_;
  RealClock clock_;
  NullJournal no_journal_;
  Ports ports_;
  std::vector<std::string> warnings_;
  std::string worker_ = "local";
  std::vector<v1::Task> train_tasks_, eval_tasks_;
  TaskBook book_;
  std::optional<Tokenizer> tokenizer_;
  std::unique_ptr<AgentProtocol> protocol_;
  std::shared_ptr<const PolicyWeights> weights_;  // shared by engine and trainer, until both run
  std::string checkpoint_;                        // gone on from; empty: none
  std::map<uint64_t, int64_t> budgets_;           // of steps that are taken again
  CasesState cases_;                              // of memory, as earlier processes left it
  std::unique_ptr<CaseShelf> shelf_;              // with memory.on
  ThreadPlan threads_;

  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<StoreThread> store_;
  std::vector<std::unique_ptr<StorePort>> clients_;
  std::unique_ptr<MemoryBus> memory_;
  std::unique_ptr<BusTicker> ticker_;
  std::unique_ptr<SplitBus> split_;  // of the learner of a fleet
  std::unique_ptr<WeightChannel> channel_;
  WeightPublisher* publisher_ = nullptr;   // the channel, of the learner of a fleet
  std::unique_ptr<WeightsWatch> follows_;  // of a rollout worker: the learner's weights
  std::unique_ptr<EngineThread> engine_;
  Metrics own_metrics_;                           // of a gateway whose figures nobody asks for
  VoteCaches votes_;                              // of judges; deletions of sessions reach it
  std::optional<LiveRun::Earlier> earlier_live_;  // with live.on
  v1::ReleaseState earlier_release_;              // with live.release
  LiveRun* live_ = nullptr;               // the gateway's; null: sessions are not learned from
  std::unique_ptr<ReleaseDesk> release_;  // where clients get a released version
  std::unique_ptr<GuardDesk> guards_;     // where sessions are learned from, or released
  std::optional<LiveOperator> operator_;
  std::unique_ptr<GatewayHost> gateway_;  // where the policy is served
  std::unique_ptr<AgentRunner> agents_;   // where the agent is a program
  std::unique_ptr<ToolExecutor> tools_;
  std::unique_ptr<TeacherPort> teacher_;     // where the objective distils
  const BusyMeter* teacher_busy_ = nullptr;  // of one in this process
  std::unique_ptr<ModelKeys> keys_;          // where memory goes by hidden states
  std::unique_ptr<TrainerThread> trainer_;
  std::unique_ptr<FrozenTrainer> frozen_;  // instead, with memory.only
  std::string frozen_digest_;              // of the weights at the start
  Time check_frozen_at_ = Time::min();
  std::unique_ptr<ScorerPort> scorer_;
  JudgeModels judge_models_;
  std::unique_ptr<JudgePort> judges_;
};

}  // namespace tidemill
