#include "planner/planned_ports.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace tidemill {

PlannedTrainer::PlannedTrainer(PlanWorld& world, SharedHost& host, const TrainerTimes& times,
                               uint32_t ranks, const ScriptTable& table,
                               std::function<void(uint64_t)> publish)
    : world_(world),
      host_(host),
      times_(times),
      ranks_(ranks),
      table_(table),
      publish_(std::move(publish)),
      events_(1000) {}

double PlannedTrainer::StepSeconds(double tokens) const {
  const double ranks = ranks_;
  return times_.step_s + times_.token_s * tokens / ranks + times_.sum_s * (ranks - 1) / ranks;
}

// Episodes of a group share their prompt in the learner's passes.
double PlannedTrainer::CostOf(const v1::Batch& batch) {
  double computed = 0;
  std::set<uint64_t> groups;
  for (const v1::Sample& sample : batch.samples()) {
    const v1::Trajectory& trajectory = sample.trajectory();
    ++totals_.episodes;
    for (const v1::Turn& turn : trajectory.turns()) {
      if (turn.ids_size() == 0) continue;
      const ScriptTable::Turn& at = table_.At(static_cast<TokenId>(turn.ids(turn.ids_size() - 1)));
      if (groups.insert(trajectory.id().group()).second) computed += at.script->prompt;
      computed += at.turn->tokens + (at.last ? 0 : at.turn->observed);
      int place = 0;
      for (const v1::VersionRun& run : turn.versions()) {
        const double tokens = turn.ids(place);
        place += static_cast<int>(run.tokens());
        if (run.masked()) {
          totals_.masked += tokens;
          continue;
        }
        totals_.tokens += tokens;
        const auto made = steps_of_.find(run.version());
        const uint64_t step = made == steps_of_.end() ? 0 : made->second;
        totals_.lags[batch.step() - std::min(batch.step(), step)] += tokens;
      }
    }
  }
  totals_.computed += computed;
  return computed;
}

void PlannedTrainer::Train(v1::Batch batch) {
  const uint64_t step = batch.step();
  const double tokens = CostOf(batch);
  const double seconds = StepSeconds(tokens);
  Later(seconds, [this, step, tokens, seconds] {
    ++totals_.steps;
    last_step_s_ = world_.Seconds();
    events_.Post(TrainDone{step, Ok(), {{"loss", 0}, {"tokens", tokens}, {"seconds", seconds}}});
    if (on_step) on_step();
  });
}

void PlannedTrainer::Publish(uint64_t version, uint64_t step) {
  Later(times_.publish_s, [this, version, step] {
    steps_of_[version] = step;
    // Versions so old that no sequence has them any more.
    while (steps_of_.size() > 10'000) steps_of_.erase(steps_of_.begin());
    events_.Post(PublishDone{version, Ok(), times_.publish_s});
    if (times_.arrive_s <= 0) return publish_(version);
    world_.After(times_.arrive_s, [this, version] { publish_(version); });
  });
}

// Written beside the next step.
void PlannedTrainer::Checkpoint(CheckpointRequest request) {
  Later(0, [this, request] {
    events_.Post(CheckpointDone{request.step, request.version, request.path, Ok()});
  });
}

void PlannedTrainer::Later(double seconds, std::function<void()> what) {
  orders_.emplace_back(seconds, std::move(what));
  if (!working_) Next();
}

void PlannedTrainer::Next() {
  const bool works = !orders_.empty();
  if (works != working_) {
    working_ = works;
    host_.Load(works ? times_.threads : -times_.threads);
    if (works) busy_since_ = world_.Seconds();
    if (!works) totals_.busy_s += world_.Seconds() - busy_since_;
  }
  if (!works) return;
  host_.After(orders_.front().first, [this] {
    const std::function<void()> what = std::move(orders_.front().second);
    orders_.pop_front();
    what();
    Next();
  });
}

TrainerTotals PlannedTrainer::Totals() const {
  TrainerTotals totals = totals_;
  if (working_) totals.busy_s += world_.Seconds() - busy_since_;
  return totals;
}

class PlannedStore::Client final : public StorePort {
 public:
  explicit Client(PlannedStore& store) : store_(store), events_(10'000'000) {}
  void Submit(StoreOp op, uint64_t tag) override { store_.Enqueue(std::move(op), tag, this); }
  Mailbox<StoreDone>& events() override { return events_; }

 private:
  PlannedStore& store_;
  Mailbox<StoreDone> events_;
};

std::unique_ptr<StorePort> PlannedStore::NewClient() {
  return std::make_unique<Client>(*this);
}

void PlannedStore::Enqueue(StoreOp op, uint64_t tag, Client* client) {
  if (const auto* put = std::get_if<PutTrajectory>(&op)) {
    const v1::Trajectory& stored = put->trajectory;
    if (stored.turns_size() > 0 && stored.turns(0).ids_size() > 0) {
      const auto& ids = stored.turns(0).ids();
      scripts_[{stored.id().group(), stored.id().member()}] =
          table_.At(static_cast<TokenId>(ids[ids.size() - 1])).script;
    }
  }
  waiting_.push_back({std::move(op), tag, client});
  if (writing_.empty()) Write();
}

void PlannedStore::Write() {
  writing_ = std::exchange(waiting_, {});
  if (writing_.empty()) return;
  const double seconds = times_.sync_s + times_.op_s * static_cast<double>(writing_.size());
  totals_.ops += writing_.size();
  totals_.busy_s += seconds;
  world_.After(seconds, [this] {
    for (const Queued& queued : writing_) {
      StoreDone done{queued.tag, Ok(), 0};
      if (std::holds_alternative<ReserveVersion>(queued.op)) done.version = next_version_++;
      queued.client->events().Post(done);
    }
    writing_.clear();
    Write();
  });
}

PlannedTools::PlannedTools(PlanWorld& world, SharedHost& host, size_t slots, size_t grade_slots,
                           const ScriptTable& table, EpisodeScripts& scripts)
    : world_(world),
      host_(host),
      table_(table),
      scripts_(scripts),
      completions_(2 * (slots + grade_slots) + 1) {
  lanes_[static_cast<size_t>(ToolLane::kAgent)].slots = slots;
  lanes_[static_cast<size_t>(ToolLane::kGrade)].slots = grade_slots;
}

void PlannedTools::Submit(v1::ToolRequest request, uint64_t tag) {
  constexpr double kTests = 1000;  // a reward in thousandths
  const auto lane = static_cast<size_t>(LaneOf(request));
  Job job;
  job.done.tag = tag;
  v1::ToolResult& result = job.done.result;
  result.set_request_id(request.request_id());
  *result.mutable_episode() = request.episode();
  result.set_tool(request.tool());
  result.set_outcome(v1::OUTCOME_OK);
  result.set_text("done");
  result.set_compiled(true);
  *result.mutable_tree() = request.tree();
  if (request.tool() == "grade") {
    ++totals_.gradings;
    const auto found = scripts_.find({request.episode().group(), request.episode().member()});
    if (found != scripts_.end()) {
      job.work_s = found->second->grade_s;
      result.set_tests_total(static_cast<uint32_t>(kTests));
      result.set_tests_passed(static_cast<uint32_t>(std::lround(found->second->reward * kTests)));
      scripts_.erase(found);
    }
  } else {
    ++totals_.calls;
    const auto json = nlohmann::json::parse(request.arguments_json(), nullptr, false);
    if (json.is_object()) job.work_s = table_.Call(json.value("call", size_t{0})).work_s;
  }
  lanes_[lane].queue.push_back(std::move(job));
  Work(lane);
}

void PlannedTools::Count() {
  const double now = world_.Seconds();
  for (size_t lane = 0; lane < kToolLanes; ++lane) {
    totals_.busy_s[lane] += (now - counted_) * static_cast<double>(lanes_[lane].busy);
  }
  counted_ = now;
}

void PlannedTools::Work(size_t lane_number) {
  Lane& lane = lanes_[lane_number];
  while (lane.busy < lane.slots && !lane.queue.empty()) {
    Job job = std::move(lane.queue.front());
    lane.queue.pop_front();
    job.done.result.set_wall_ms(job.work_s * 1e3);
    Count();
    ++lane.busy;
    host_.Load(1);
    host_.After(job.work_s, [this, lane_number, done = std::move(job.done)] {
      Count();
      --lanes_[lane_number].busy;
      host_.Load(-1);
      completions_.Post(done);
      Work(lane_number);
    });
  }
}

ToolTotals PlannedTools::Totals() {
  Count();
  return totals_;
}

}  // namespace tidemill
