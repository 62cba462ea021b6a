// The whole line in one thread, in an order that is always the same: the real loops, engine,
// trainer and database, on a clock that only counts rounds, with tool results that were recorded
// before. Everything that could arrive sooner or later arrives at its place. One policy, or
// several.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "engine/engine_port.h"
#include "engine/policy_channel.h"
#include "engine/torch/torch_engine.h"
#include "learner/learner_loop.h"
#include "learner/torch/checkpoint.h"
#include "model/tokenizer.h"
#include "rollout/rollout_loop.h"
#include "run/assembly.h"
#include "run/torch/make_trainer.h"
#include "store/run_reader.h"
#include "tasks/task_file.h"
#include "testing/test_kit.h"
#include "tools/tool_cache.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {

// Answers at once: from what was recorded or, where nothing was, from a real box.
class RecordedTools final : public ToolPort {
 public:
  using Records = std::map<std::string, v1::ToolResult>;
  RecordedTools(Records& records, ToolPort& real) : records_(records), real_(real) {}

  void Submit(v1::ToolRequest request, uint64_t tag) override {
    const std::string key = ToolRequestHash(request);
    if (records_.count(key) == 0) records_[key] = RunForReal(request);
    ToolCompletion done;
    done.tag = tag;
    done.result = records_.at(key);
    done.result.set_request_id(request.request_id());
    *done.result.mutable_episode() = request.episode();
    completions_.Post(std::move(done));
  }
  void Cancel(const v1::TrajectoryId&) override {}
  void CancelOne(uint64_t) override {}
  Mailbox<ToolCompletion>& completions() override { return completions_; }
  size_t capacity(ToolLane) const override { return 64; }

 private:
  v1::ToolResult RunForReal(const v1::ToolRequest& request) {
    ++recorded;
    real_.Submit(request, 1);
    while (true) {
      for (ToolCompletion& done : real_.completions().TakeAll()) return done.result;
      std::this_thread::yield();
    }
  }
  Records& records_;
  ToolPort& real_;
  Mailbox<ToolCompletion> completions_{100'000};

 public:
  uint64_t recorded = 0;
};

class StepwiseEngine final : public EnginePort {
 public:
  StepwiseEngine(std::unique_ptr<Engine> engine, WeightChannel& channel, uint64_t version)
      : engine_(std::move(engine)), channel_(channel), version_(version) {}
  void Start(SequenceStart start) override { TM_CHECK(engine_->Add(std::move(start)).ok()); }
  void Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) override {
    TM_CHECK(engine_->Continue(id, std::move(append), std::move(turn)).ok());
  }
  void Release(SequenceId id) override { (void)engine_->Release(id); }
  void Publish(PolicyVersion version, std::shared_ptr<const Weights> weights,
               std::function<void(Status)> done) override {
    done(engine_->SwapWeights(std::move(weights), version, CacheOnSwap::kRebuild));
  }
  Mailbox<EngineEvent>& events() override { return events_; }
  TurnFeed& feed() override { return feed_; }
  uint64_t version() const override { return version_; }
  EngineStats Stats() const override { return engine_->Stats(); }

  void Step() {
    PublishedWeights newer = channel_.NewerThan(version_).value();
    if (newer.weights != nullptr) {
      version_ = newer.version;
      TM_CHECK(engine_->SwapWeights(newer.weights, newer.version, CacheOnSwap::kRebuild).ok());
    }
    if (!engine_->Work()) return;
    std::vector<TurnOutput> finished = engine_->Step().value();
    for (TurnOutput& turn : finished) events_.Post({.status = Ok(), .turn = std::move(turn)});
  }

 private:
  std::unique_ptr<Engine> engine_;
  WeightChannel& channel_;
  uint64_t version_;
  Mailbox<EngineEvent> events_{100'000};
  TurnFeed feed_;
};

class StepwiseTrainer final : public TrainerPort {
 public:
  StepwiseTrainer(std::unique_ptr<Trainer> trainer, WeightChannel& channel)
      : trainer_(std::move(trainer)), channel_(channel) {}
  void Train(v1::Batch batch) override {
    Result<TrainReport> report = trainer_->Train(batch);
    TrainDone done{batch.step(), report.status(), {}};
    if (report.ok()) done.metrics = report->metrics;
    events_.Post(std::move(done));
  }
  void Publish(uint64_t version, uint64_t step) override {
    trainer_->NotePublished(version, step);
    const Status status = channel_.Publish({version, step, trainer_->Snapshot().value()});
    events_.Post(PublishDone{version, status, 0});
  }
  void Checkpoint(CheckpointRequest request) override {
    const Status status =
        SaveCheckpoint(*trainer_, request.path, {request.step, request.version}, "");
    events_.Post(CheckpointDone{request.step, request.version, request.path, status, 0, 0});
  }
  Mailbox<TrainerEvent>& events() override { return events_; }

 private:
  std::unique_ptr<Trainer> trainer_;
  WeightChannel& channel_;
  Mailbox<TrainerEvent> events_{1000};
};

// Durable before it returns.
class DirectStore final : public StorePort {
 public:
  explicit DirectStore(RunDb& db) : db_(db) {}
  void Submit(StoreOp op, uint64_t tag) override {
    const StoreOp* ops[] = {&op};
    std::vector<RunDb::Outcome> outcomes = db_.Apply(ops).value();
    events_.Post({tag, outcomes[0].status, outcomes[0].version});
  }
  Mailbox<StoreDone>& events() override { return events_; }

 private:
  RunDb& db_;
  Mailbox<StoreDone> events_{100'000};
};

// One life of a run: from the start, or from its newest checkpoint.
class FixedOrderLine {
 public:
  FixedOrderLine(const RunConfig& config, const std::string& folder, ToolPort& tools);
  // Rounds until the learner has made `steps` steps, and `more` rounds beyond.
  void Run(uint64_t steps, uint64_t more = 0);
  bool done() const { return loops_.learner->counters().done; }

 private:
  // What the loops have counted.
  std::string Figures() const;
  uint64_t Reserve(uint64_t step, PolicyStep of);
  void MakeTrainers(const RunConfig& config, const std::string& folder, RunStart& start);
  void MakeLoops(RunConfig config, ToolPort& tools, RunStart start);

  QuietWaker waker_;
  VirtualClock clock_;
  NullJournal journal_;
  std::vector<v1::Task> tasks_, no_tasks_;
  TaskBook book_;
  Tokenizer tokenizer_;
  std::unique_ptr<AgentProtocol> protocol_;
  std::unique_ptr<RunDb> db_;
  MemoryBus bus_{clock_};
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  std::vector<std::unique_ptr<DirectStore>> stores_;
  std::unique_ptr<StepwiseEngine> engine_;
  std::vector<std::unique_ptr<PolicyChannel>> channels_;  // of policies beside the default one
  std::map<PolicyId, std::unique_ptr<StepwiseTrainer>> trainers_;
  int32_t max_context_ = 0;
  Loops loops_;
};

}  // namespace tidemill
