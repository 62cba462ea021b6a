// The parts of a run on this machine: what they are, how they are made and in which order they go.
// Of training_run.cc alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/memory/memory_bus.h"
#include "bus/split_bus.h"
#include "core/threads.h"
#include "learner/learner_loop.h"
#include "learner/torch/trainer_thread.h"
#include "model/tokenizer.h"
#include "model/torch/model.h"
#include "replay/replay_loop.h"
#include "reward/reward_loop.h"
#include "rollout/dispatcher.h"
#include "rollout/rollout_loop.h"
#include "run/make_scorers.h"
#include "run/training_run.h"
#include "store/run_db.h"
#include "store/store_thread.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {

// In the order they are made; taken down in reverse.
struct TrainingRun::Parts {
  RunConfig config;
  Options options;
  std::vector<std::string> warnings;
  RealClock clock;
  RunJournal* journal = nullptr;
  std::vector<v1::Task> train_tasks, eval_tasks;
  TaskBook book;
  std::optional<Tokenizer> tokenizer;
  std::unique_ptr<AgentProtocol> protocol;
  std::shared_ptr<const PolicyWeights> weights;  // shared: engine and trainer start from the same
  ThreadPlan threads;
  ResumeState resumed;
  uint64_t start_step = 0, start_version = 0;
  int32_t max_context = 0;
  std::string name;        // of this learner on a shared bus
  std::string checkpoint;  // gone on from; empty: none

  // Topics and mailboxes wake its loops, so it goes after them.
  std::unique_ptr<LoopRunner> runner;
  std::unique_ptr<BlobStore> blobs;
  std::unique_ptr<StoreThread> store;
  std::vector<std::unique_ptr<StorePort>> clients;
  std::unique_ptr<MemoryBus> memory;
  std::unique_ptr<BusTicker> ticker;
  std::unique_ptr<SplitBus> split;  // with a fleet
  Bus* bus = nullptr;               // memory or split
  std::unique_ptr<WeightChannel> channel;
  WeightPublisher* publisher = nullptr;  // the channel, with a fleet
  std::unique_ptr<EngineThread> engine;
  std::unique_ptr<ToolExecutor> tools;
  std::unique_ptr<TrainerThread> trainer;
  std::unique_ptr<CommandPort> scorer_port;

  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<RolloutLoop> rollout;
  std::unique_ptr<ToolLoop> tool_loop;
  std::unique_ptr<RewardLoop> reward;
  std::unique_ptr<ReplayLoop> replay;
  std::unique_ptr<LearnerLoop> learner;
  Time started = Time::min();
  bool running = false;

  ~Parts() {
    if (running) (void)runner->Stop();
  }
  Status LoadInputs();
  Status OpenStore(RunDirectory& directory);
  Status MakeBus(RunDirectory& directory);
  Status MakePorts();
  Status CheckPrompts() const;
  void MakeWorkLoops(RewardParts scoring);
  void AddWork(RunSnapshot& s) const;
  Status MakeLoops(RunDirectory& directory);
  DispatcherOptions DispatchOptions() const;
  std::vector<EvalPlan> EvalPlans(const std::string& name) const;
};

}  // namespace tidemill
