#include "sim/sim_store.h"

#include <algorithm>

#include "sim/durable_checks.h"

namespace tidemill::sim {

class SimStore::Client final : public StorePort {
 public:
  explicit Client(SimStore& store) : store_(store), events_(100'000) {}
  void Submit(StoreOp op, uint64_t tag) override { store_.Enqueue(std::move(op), tag, this); }
  Mailbox<StoreDone>& events() override { return events_; }

 private:
  SimStore& store_;
  Mailbox<StoreDone> events_;
};

std::string LiveKey(const v1::TrajectoryId& id) {
  return id.task() + "/" + std::to_string(id.member());
}

bool SimStore::IsLive(const v1::TrajectoryId& id) const {
  return std::any_of(durable_.live.begin(), durable_.live.end(),
                     [&](const v1::Trajectory& one) { return LiveKey(one.id()) == LiveKey(id); });
}

std::unique_ptr<StorePort> SimStore::NewClient() {
  return std::make_unique<Client>(*this);
}

void SimStore::Enqueue(StoreOp op, uint64_t tag, Client* client) {
  // The planted bug: says "durable" for a trajectory that is only on its way.
  if (faults_.acknowledge_before_sync && std::holds_alternative<PutTrajectory>(op)) {
    client->events().Post({tag, Ok(), 0});
    client = nullptr;
  }
  queue_.push_back({std::move(op), tag, client});
  if (syncing_) return;
  syncing_ = true;
  const bool slow = world_.random().Chance(faults_.slow_sync);
  if (slow) world_.Fault("disk slow");
  const auto delay = slow ? milliseconds(500 + world_.random().Below(3000))
                          : milliseconds(1 + world_.random().Below(20));
  world_.After(delay, process_, [this] { Sync(); });
}

void SimStore::Sync() {
  syncing_ = false;
  std::deque<Queued> batch = std::exchange(queue_, {});
  for (Queued& queued : batch) {
    const StoreDone done = Apply(queued.op, queued.tag);
    if (on_durable) on_durable(queued.op);
    if (queued.client != nullptr) queued.client->events().Post(done);
  }
}

void SimStore::Crash() {
  if (!queue_.empty()) world_.Fault("unsynced writes lost");
  queue_.clear();
  syncing_ = false;
  if (faults_.reuse_versions) {
    durable_.next_version =
        durable_.checkpoints.empty() ? 1 : durable_.checkpoints.rbegin()->second;
  }
}

uint32_t SimStore::UsesOf(uint64_t group) const {
  size_t uses = 0;
  auto it = durable_.trajectories.lower_bound({group, 0});
  for (; it != durable_.trajectories.end() && it->first.first == group; ++it)
    uses = std::max(uses, it->second.uses.size());
  return static_cast<uint32_t>(uses);
}

void SimStore::ResumeFrom(uint64_t step) {
  for (auto& [key, stored] : durable_.trajectories) {
    stored.uses.erase(stored.uses.upper_bound(step), stored.uses.end());
  }
  durable_.steps.erase(durable_.steps.upper_bound(step), durable_.steps.end());
}

// A later verdict replaces an earlier one, but an older scorer never a newer.
void SimStore::PutInPlace(const v1::Verdict& verdict, SimTrajectory& stored) {
  if (stored.verdict) {
    for (const v1::RewardPart& part : verdict.parts()) {
      for (const v1::RewardPart& before : stored.verdict->parts()) {
        if (before.scorer() == part.scorer() && before.scorer_version() > part.scorer_version())
          world_.verdict().Fail("a verdict was replaced by an older scorer's");
      }
    }
    if (stored.verdict->scored() && !verdict.scored())
      world_.verdict().Fail("a verdict was replaced by none");
    ++rescored_;
  }
  stored.verdict = verdict;
}

// The real ledger keeps the report with the higher revision, so one that is not newer would be
// lost.
void SimStore::KeepReport(const v1::GroupReport& report, SimGroup& group) {
  if (group.report && report.revision() <= group.report->revision()) {
    world_.verdict().Fail("the ledger has a report on group " + std::to_string(report.group()) +
                          " that is not older than revision " + std::to_string(report.revision()));
  }
  group.report = report;
}

StoreDone SimStore::Apply(const StoreOp& op, uint64_t tag) {
  StoreDone done{tag, Ok(), 0};
  auto find = [&](const v1::TrajectoryId& id) -> SimTrajectory* {
    auto it = durable_.trajectories.find({id.group(), id.member()});
    return it == durable_.trajectories.end() ? nullptr : &it->second;
  };
  if (auto* put = std::get_if<PutTrajectory>(&op)) {
    const v1::TrajectoryId& id = put->trajectory.id();
    if (on_trajectory) on_trajectory(put->trajectory);
    if (find(id) != nullptr)
      done.status = Exists("stored already");
    else
      durable_.trajectories[{id.group(), id.member()}].trajectory = put->trajectory;
  } else if (auto* put = std::get_if<PutVerdict>(&op)) {
    if (SimTrajectory* stored = find(put->verdict.id())) PutInPlace(put->verdict, *stored);
    KeepLiveVerdict(put->verdict);
  } else if (auto* put = std::get_if<PutFate>(&op)) {
    if (SimTrajectory* stored = find(put->id)) stored->fate = put->fate;
  } else if (auto* put = std::get_if<PutStep>(&op);
             put != nullptr && !put->used.empty() &&
             (IsLive(put->used[0]) || durable_.erased.contains(put->used[0].group()))) {
    KeepLiveStep(*put);
  } else if (auto* put = std::get_if<PutStep>(&op)) {
    durable_.steps[put->step] = put->version;
    for (const v1::TrajectoryId& id : put->used) {
      SimTrajectory* stored = find(id);
      if (stored == nullptr) {
        world_.verdict().Fail("a step used a trajectory that is not in the store");
        continue;
      }
      stored->uses.insert(put->step);
      if (stored->uses.size() > max_uses_) {
        world_.verdict().Fail("a trajectory was used " + std::to_string(stored->uses.size()) +
                              " times; " + std::to_string(max_uses_) + " are allowed");
      }
    }
  } else if (auto* put = std::get_if<PutGroup>(&op)) {
    durable_.groups[put->group.group()].lease = put->group;
    durable_.cursor = put->cursor;
    if (on_group) on_group(put->group);
  } else if (auto* put = std::get_if<PutGroupReport>(&op)) {
    auto it = durable_.groups.find(put->report.group());
    if (it != durable_.groups.end()) KeepReport(put->report, it->second);
  } else if (auto* reserve = std::get_if<ReserveVersion>(&op)) {
    done.version = ReserveNow(reserve->step);
  } else if (auto* put = std::get_if<PutCheckpoint>(&op)) {
    durable_.checkpoints[put->step] = put->version;
  } else if (auto* put = std::get_if<PutSession>(&op)) {
    done.status = Keep(*put);
  } else if (auto* put = std::get_if<PutSessionTurn>(&op)) {
    done.status = Keep(*put);
  } else if (auto* put = std::get_if<PutSignal>(&op)) {
    done.status = Keep(*put);
  } else if (auto* put = std::get_if<PutCase>(&op)) {
    done.status = Keep(*put, done.version);
  }
  return done;
}

Status SimStore::Keep(const PutCase& put, uint64_t& number) {
  const v1::TrajectoryId& id = put.record.id();
  if (put.record.session() != 0) {
    TM_RETURN_IF_ERROR(KeepSessionCase(put.record));
    number = ++durable_.last_case;
    durable_.cases.emplace(number, put.record);
    durable_.case_tenants.emplace(number, put.record.tenant());
    return Ok();
  }
  const std::string wrong = WrongCase(durable_, put.record);
  if (!wrong.empty()) world_.verdict().Fail(wrong);
  if (!durable_.case_keys.insert({id.group(), id.member()}).second) return Exists("a case already");
  number = ++durable_.last_case;
  durable_.cases.emplace(number, put.record);
  return Ok();
}

// As the database: what says the same as the newest of the turn is a repetition.
Status SimStore::KeepSessionCase(const v1::CaseRecord& record) {
  const auto session = durable_.sessions.find(record.session());
  if (session == durable_.sessions.end()) return NotFound("the session is not stored");
  if (session->second.session.tenant() != record.tenant()) {
    world_.verdict().Fail("a case is of another tenant than its session");
  }
  const v1::CaseRecord* newest = nullptr;
  for (const auto& [number, one] : durable_.cases) {
    if (one.session() == record.session() && one.id().member() == record.id().member()) {
      newest = &one;
    }
  }
  const bool same = newest != nullptr && newest->reward() == record.reward();
  return same ? Exists("a case already") : Ok();
}

void SimStore::Erase(uint64_t session) {
  durable_.sessions.erase(session);
  std::erase_if(durable_.live, [&](const v1::Trajectory& one) {
    if (one.id().group() != session) return false;
    durable_.live_verdicts.erase(LiveKey(one.id()));
    return true;
  });
  std::erase_if(durable_.signals,
                [&](const auto& signal) { return signal.second.session() == session; });
  std::erase_if(durable_.cases, [&](const auto& one) { return one.second.session() == session; });
  durable_.erased.insert(session);
}

Status SimStore::Keep(const PutSession& put) {
  if (durable_.erased.contains(put.session.number())) return NotFound("the session was deleted");
  durable_.sessions[put.session.number()].session = put.session;
  durable_.live.insert(durable_.live.end(), put.trajectories.begin(), put.trajectories.end());
  return Ok();
}

Status SimStore::Keep(const PutSessionTurn& put) {
  const auto it = durable_.sessions.find(put.turn.session());
  if (it == durable_.sessions.end()) return NotFound("the session is not stored");
  for (const v1::SessionTurn& turn : it->second.turns) {
    if (turn.turn() == put.turn.turn()) return Exists("stored already");
  }
  it->second.turns.push_back(put.turn);
  return Ok();
}

Status SimStore::Keep(const PutSignal& put) {
  const v1::Signal& signal = put.signal;
  if (!durable_.sessions.contains(signal.session())) return NotFound("the session is not stored");
  const std::string key = std::to_string(signal.session()) + "/" + std::to_string(signal.turn()) +
                          "/" + signal.source() + "/" + signal.by();
  durable_.signals[key] = signal;
  return Ok();
}

void SimStore::KeepLiveVerdict(const v1::Verdict& verdict) {
  if (!IsLive(verdict.id())) return;
  SimTrajectory before;
  const auto it = durable_.live_verdicts.find(LiveKey(verdict.id()));
  if (it != durable_.live_verdicts.end()) before.verdict = it->second;
  PutInPlace(verdict, before);
  durable_.live_verdicts[LiveKey(verdict.id())] = verdict;
}

void SimStore::KeepLiveStep(const PutStep& put) {
  durable_.live_steps = put.step;
  for (const v1::TrajectoryId& id : put.used) durable_.live_uses[LiveKey(id)].insert(put.step);
}

LiveState SimStore::Live() const {
  LiveState state;
  for (const v1::Trajectory& trajectory : durable_.live) {
    const bool used = durable_.live_uses.contains(LiveKey(trajectory.id()));
    state.trajectories.push_back(
        {durable_.sessions.at(trajectory.id().group()).session, trajectory, !used});
  }
  for (const auto& [key, signal] : durable_.signals) state.signals.push_back(signal);
  return state;
}

SessionsState SimStore::Sessions() const {
  SessionsState state;
  for (const auto& [number, stored] : durable_.sessions) {
    state.next_number = number + 1;
    state.sessions.push_back(stored);
  }
  if (!durable_.erased.empty()) {
    state.next_number = std::max(state.next_number, *durable_.erased.rbegin() + 1);
  }
  return state;
}

}  // namespace tidemill::sim
