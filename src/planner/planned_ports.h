// Trainer, store and tools of a planned run: they only take their time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "learner/trainer_port.h"
#include "planner/planned_script.h"
#include "planner/shared_host.h"
#include "store/store_port.h"
#include "tools/tool_port.h"

namespace tidemill {

struct TrainerTotals {
  double busy_s = 0;
  uint64_t steps = 0;
  uint64_t episodes = 0;
  double tokens = 0;                  // drawn, that were trained
  double masked = 0;                  // drawn, too old for a loss
  double computed = 0;                // all that its passes ran over
  std::map<uint64_t, double> lags{};  // trained tokens by steps behind
};

class PlannedTrainer final : public TrainerPort {
 public:
  // `publish` is called when engines have the version.
  PlannedTrainer(PlanWorld& world, SharedHost& host, const TrainerTimes& times, uint32_t ranks,
                 const ScriptTable& table, std::function<void(uint64_t version)> publish);

  void Train(v1::Batch batch) override;
  void Publish(uint64_t version, uint64_t step) override;
  void Checkpoint(CheckpointRequest request) override;
  Mailbox<TrainerEvent>& events() override { return events_; }

  // The version published before the first step.
  void Begin(uint64_t version) { steps_of_[version] = 0; }
  TrainerTotals Totals() const;
  // How long a step on so many tokens takes when nothing else wants the host.
  double StepSeconds(double tokens) const;
  // When the newest step ended, in seconds of the world.
  double last_step_s() const { return last_step_s_; }
  std::function<void()> on_step;  // a step is done

 private:
  double CostOf(const v1::Batch& batch);
  void Later(double seconds, std::function<void()> what);
  void Next();

  PlanWorld& world_;
  SharedHost& host_;
  const TrainerTimes& times_;
  const uint32_t ranks_;
  const ScriptTable& table_;
  const std::function<void(uint64_t)> publish_;
  Mailbox<TrainerEvent> events_;
  std::deque<std::pair<double, std::function<void()>>> orders_;
  bool working_ = false;
  double busy_since_ = 0, last_step_s_ = 0;
  std::map<uint64_t, uint64_t> steps_of_;  // by version
  TrainerTotals totals_;
};

struct StoreTotals {
  double busy_s = 0;
  uint64_t ops = 0;
};

// One store for all its clients. It keeps nothing.
class PlannedStore {
 public:
  PlannedStore(PlanWorld& world, const StoreTimes& times, const ScriptTable& table,
               EpisodeScripts& scripts, uint64_t next_version)
      : world_(world),
        times_(times),
        table_(table),
        scripts_(scripts),
        next_version_(next_version) {}

  std::unique_ptr<StorePort> NewClient();
  const StoreTotals& totals() const { return totals_; }

 private:
  class Client;
  struct Queued {
    StoreOp op;
    uint64_t tag = 0;
    Client* client = nullptr;
  };
  void Enqueue(StoreOp op, uint64_t tag, Client* client);
  void Write();

  PlanWorld& world_;
  const StoreTimes& times_;
  const ScriptTable& table_;
  EpisodeScripts& scripts_;
  uint64_t next_version_;
  std::vector<Queued> waiting_, writing_;
  StoreTotals totals_;
};

struct ToolTotals {
  double busy_s[kToolLanes] = {};  // of a lane's slots
  uint64_t calls = 0, gradings = 0;
};

class PlannedTools final : public ToolPort {
 public:
  PlannedTools(PlanWorld& world, SharedHost& host, size_t slots, size_t grade_slots,
               const ScriptTable& table, EpisodeScripts& scripts);

  size_t capacity(ToolLane lane) const override { return 2 * Of(lane).slots; }
  void Submit(v1::ToolRequest request, uint64_t tag) override;
  void Cancel(const v1::TrajectoryId&) override {}
  void CancelOne(uint64_t) override {}
  Mailbox<ToolCompletion>& completions() override { return completions_; }

  size_t slots(ToolLane lane) const { return Of(lane).slots; }
  ToolTotals Totals();

 private:
  struct Job {
    ToolCompletion done;
    double work_s = 0;
  };
  struct Lane {
    size_t slots = 0, busy = 0;
    std::deque<Job> queue{};
  };
  const Lane& Of(ToolLane lane) const { return lanes_[static_cast<size_t>(lane)]; }
  void Work(size_t lane);
  // Slot-seconds so far.
  void Count();

  PlanWorld& world_;
  SharedHost& host_;
  const ScriptTable& table_;
  EpisodeScripts& scripts_;
  Lane lanes_[kToolLanes];
  Mailbox<ToolCompletion> completions_;
  double counted_ = 0;  // seconds of the world
  ToolTotals totals_;
};

}  // namespace tidemill
