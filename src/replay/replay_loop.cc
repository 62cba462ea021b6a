#include "replay/replay_loop.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/topics.h"

namespace tidemill {
namespace {

constexpr size_t kMessagesAtOnce = 256;
constexpr double kSameReward = 1e-9;

}  // namespace

ReplayLoop::ReplayLoop(Bus& bus, StorePort& store, const Clock& clock, Journal& journal,
                       const TaskBook& tasks, ReplayOptions options,
                       std::vector<StoredSample> stored)
    : bus_(bus),
      store_(store),
      clock_(clock),
      journal_(journal),
      tasks_(tasks),
      options_(std::move(options)),
      inbox_(InboxTopic(options_.worker, "replay")),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period),
      buffer_(GroupBuffer::Make(options_.buffer).value()),
      scorer_versions_(options_.scorer_versions) {
  for (const auto& [version, step] : options_.versions) versions_.Published(version, step);
  Restore(std::move(stored));
}

void ReplayLoop::Restore(std::vector<StoredSample> stored) {
  std::set<uint64_t> ids;
  for (StoredSample& sample : stored) {
    const v1::TrajectoryId& id = sample.trajectory.id();
    ids.insert(id.group());
    Group& group = groups_[id.group()];
    group.purpose = sample.trajectory.purpose();
    group.size = sample.trajectory.group_members();
    group.uses = std::max(group.uses, sample.uses);
    group.revision = sample.revision;
    Member& member = group.members[id.member()];
    const bool unscorable = sample.verdict && !sample.verdict->scored();
    member.stale =
        sample.stale || unscorable || sample.trajectory.end() == v1::EPISODE_END_GIVEN_UP;
    if (!unscorable) member.verdict = std::move(sample.verdict);
    if (!member.verdict && !member.stale) member.ask_again = Time::min();
    member.trajectory = std::move(sample.trajectory);
  }
  for (uint64_t id : ids) CompleteIfDone(id);
  version_rose_ = true;  // what was scored by older scorers
}

void ReplayLoop::Attach(Waker& waker) {
  TopicOptions inbox;
  inbox.capacity = options_.max_score_outstanding;
  const Status opened = bus_.Open(inbox_, inbox);
  if (!opened.ok()) throw std::runtime_error("opening " + inbox_ + ": " + opened.ToString());
  bus_.Subscribe(kTrajectoriesTopic, waker);
  bus_.Subscribe(kBatchRequestsTopic, waker);
  bus_.Subscribe(inbox_, waker);
  store_.events().Attach(waker);
}

Time ReplayLoop::Step(Time now) {
  TakeStored(now);
  if (pending_.size() < options_.store_capacity / 2) {
    if (!draining_ || options_.empty_topic) TakeTrajectories(now);
    TakeVerdicts(now);
  }
  // A lost lease means a second copy of the message, which its key gives away.
  (void)leases_.Extend(now);
  AskAgain(now);
  ChooseForRescoring();
  RescoreNext(now);
  TakeBatchRequests();
  while (TryMakeBatch()) {
  }
  outbox_.Flush(now);
  return std::min(now + (outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(100)),
                  leases_.next());
}

uint64_t ReplayLoop::Submit(StoreOp op, Pending pending) {
  const uint64_t tag = next_tag_++;
  pending_.emplace(tag, std::move(pending));
  store_.Submit(std::move(op), tag);
  return tag;
}

void ReplayLoop::TakeTrajectories(Time now) {
  for (Lease& lease : TakeFrom(bus_, kTrajectoriesTopic, kMessagesAtOnce)) {
    v1::Trajectory trajectory;
    if (!trajectory.ParseFromString(lease.body) || trajectory.group_members() == 0) {
      (void)bus_.Reject(lease, "not a Trajectory of a group");
      continue;
    }
    ++counters_.received;
    auto group = groups_.find(trajectory.id().group());
    if (group != groups_.end() && group->second.members.count(trajectory.id().member()) != 0) {
      ++counters_.duplicates;
      (void)bus_.Ack(lease);
      continue;
    }
    Pending pending{Pending::kTrajectory, trajectory, {}};
    const uint64_t tag = Submit(PutTrajectory{std::move(trajectory)}, std::move(pending));
    leases_.Hold(tag, std::move(lease), now);
  }
}

bool ReplayLoop::Drained() const {
  const Result<TopicDepth> depth = bus_.Depth(kTrajectoriesTopic);
  const bool taken = !options_.empty_topic || !depth.ok() || depth->ready + depth->leased == 0;
  return taken && pending_.empty() && outbox_.waiting() == 0;
}

void ReplayLoop::TakeVerdicts(Time now) {
  for (Lease& lease : TakeFrom(bus_, inbox_, kMessagesAtOnce)) {
    v1::Verdict verdict;
    if (!verdict.ParseFromString(lease.body)) {
      (void)bus_.Reject(lease, "not a Verdict");
      continue;
    }
    auto group = groups_.find(verdict.id().group());
    Member* member = nullptr;
    if (group != groups_.end()) {
      auto it = group->second.members.find(verdict.id().member());
      if (it != group->second.members.end()) member = &it->second;
    }
    // Only the answer to the question that is open; any other came too late or twice.
    const bool open = member != nullptr && !member->asked.empty() && !member->storing &&
                      member->asked == verdict.request_id();
    if (!open) {
      (void)bus_.Ack(lease);
      continue;
    }
    member->ask_again = kNever;
    --counters_.waiting_verdicts;
    if (member->verdict && !Replaces(verdict, *member->verdict)) {
      (void)bus_.Ack(lease);
      ++counters_.rescore_failed;
      member->asked.clear();
      FinishRescoring(group->first);
      continue;
    }
    member->storing = true;
    Pending pending{Pending::kVerdict, {}, verdict};
    const uint64_t tag = Submit(PutVerdict{std::move(verdict)}, std::move(pending));
    leases_.Hold(tag, std::move(lease), now);
  }
}

void ReplayLoop::TakeStored(Time now) {
  for (StoreDone& done : store_.events().TakeAll()) {
    auto node = pending_.extract(done.tag);
    TM_CHECK(!node.empty(), "the store answered for something that was not submitted");
    Pending& pending = node.mapped();
    const Code code = done.status.code();
    if ((code == Code::kInvalid || code == Code::kNotFound) && leases_.Holds(done.tag)) {
      // Somebody else's mistake must not end the run: it is kept as a dead letter.
      (void)bus_.Reject(leases_.Take(done.tag), done.status.message());
      continue;
    }
    if (!done.status.ok() && done.status.code() != Code::kExists) {
      throw std::runtime_error("the run's database: " + done.status.ToString());
    }
    switch (pending.kind) {
      case Pending::kTrajectory:
        OnTrajectoryStored(pending, done.status, now);
        break;
      case Pending::kVerdict:
        OnVerdictStored(pending.verdict);
        break;
      case Pending::kRecord:
        break;
    }
    // Acknowledge after the insert, never before: a crash in between costs a duplicate, which is
    // dropped by its key.
    if (leases_.Holds(done.tag)) (void)bus_.Ack(leases_.Take(done.tag));
  }
}

void ReplayLoop::OnTrajectoryStored(Pending& pending, const Status& status, Time now) {
  v1::Trajectory& trajectory = pending.trajectory;
  const uint64_t id = trajectory.id().group();
  if (status.code() == Code::kExists) {
    ++counters_.duplicates;
    return;
  }
  ++counters_.stored;
  Group& group = groups_[id];
  group.purpose = trajectory.purpose();
  group.size = trajectory.group_members();
  const uint32_t index = trajectory.id().member();
  Member& member = group.members[index];
  member.trajectory = std::move(trajectory);
  if (member.trajectory.end() == v1::EPISODE_END_GIVEN_UP) {
    MarkStale(member, member.trajectory.stale_cause());
    CompleteIfDone(id);
    return;
  }
  if (!draining_) AskForVerdict(id, index, now);
}

void ReplayLoop::OnVerdictStored(const v1::Verdict& verdict) {
  auto group = groups_.find(verdict.id().group());
  if (group == groups_.end()) return;
  auto it = group->second.members.find(verdict.id().member());
  if (it == group->second.members.end() || it->second.stale) return;
  Member& member = it->second;
  member.asked.clear();
  member.storing = false;
  NoteVersions(verdict);
  if (member.verdict) {
    member.verdict = verdict;
    ++counters_.rescored;
    FinishRescoring(group->first);
    return;
  }
  if (verdict.scored()) {
    ++counters_.scored;
    if (verdict.solved()) ++counters_.solved;
    member.verdict = verdict;
  } else {
    MarkStale(member, "unscorable: " + verdict.cause());
  }
  CompleteIfDone(group->first);
}

void ReplayLoop::MarkStale(Member& member, const std::string& reason) {
  member.stale = true;
  ++counters_.stale;
  RecordFate(member.trajectory.id(), "stale", reason);
}

void ReplayLoop::RecordFate(const v1::TrajectoryId& id, const std::string& fate,
                            const std::string& reason) {
  Submit(PutFate{id, fate, reason}, {});
}

ReplayLoop::Spread ReplayLoop::SpreadOf(const Group& group) {
  Spread spread;
  double low = 0, high = 0, sum = 0, squares = 0;
  for (const auto& [index, member] : group.members) {
    if (!member.verdict || member.stale) continue;
    const double reward = member.verdict->reward();
    low = spread.usable == 0 ? reward : std::min(low, reward);
    high = spread.usable == 0 ? reward : std::max(high, reward);
    sum += reward, squares += reward * reward;
    ++spread.usable;
  }
  if (spread.usable == 0) return spread;
  const auto count = static_cast<double>(spread.usable);
  spread.same = high - low < kSameReward;
  spread.deviation = std::sqrt(std::max(0.0, squares / count - (sum / count) * (sum / count)));
  return spread;
}

void ReplayLoop::CompleteIfDone(uint64_t group_id) {
  Group& group = groups_.at(group_id);
  if (group.complete || group.members.size() < group.size) return;
  for (const auto& [index, member] : group.members) {
    if (!member.verdict && !member.stale) return;
  }
  group.complete = true;
  if (group.purpose == v1::PURPOSE_EVAL) {
    Report(group_id, group, true, false, "");
    groups_.erase(group_id);
    return;
  }
  const Spread spread = SpreadOf(group);
  if (spread.usable < std::min<size_t>(2, group.size)) {
    Drop(group_id, "stale", true);
    return;
  }
  if (TeachesNothing(group, spread)) {
    counters_.zero_variance += group.size;
    Drop(group_id, "zero_variance", false);
    return;
  }
  Report(group_id, group, true, false, "");
  for (const auto& [index, member] : group.members) {
    if (Outdated(member)) version_rose_ = true;
  }
  group.in_buffer = true;
  counters_.ready_episodes += group.size;
  const std::optional<ItemKey> evicted = buffer_.Insert(group_id, spread.deviation, group.uses);
  if (!evicted) return;
  counters_.evicted += groups_.at(*evicted).size;
  Drop(*evicted, "evicted", false);
}

// The group leaves for good. Its report goes first: should the process end in between, the ledger
// must say what became of it.
void ReplayLoop::Drop(uint64_t group_id, const std::string& fate, bool reissue) {
  Group& group = groups_.at(group_id);
  Report(group_id, group, false, reissue, fate);
  for (auto& [index, member] : group.members) {
    if (!member.stale) RecordFate(member.trajectory.id(), fate, "");
  }
  Forget(group_id);
}

void ReplayLoop::Forget(uint64_t group_id) {
  auto it = groups_.find(group_id);
  for (const auto& [index, member] : it->second.members) {
    if (member.asked.empty() || member.storing) continue;
    (void)bus_.Forgive(inbox_, 1);
    --counters_.waiting_verdicts;
  }
  if (it->second.in_buffer) counters_.ready_episodes -= it->second.size;
  buffer_.Remove(group_id);
  rescoring_.erase(group_id);
  groups_.erase(it);
}

void ReplayLoop::Report(uint64_t group_id, Group& group, bool accepted, bool reissue,
                        const std::string& reason) {
  v1::DispatchEvent event;
  v1::GroupReport& report = *event.mutable_group();
  report.set_group(group_id);
  report.set_revision(++group.revision);
  (accepted ? report.set_accepted(group.size) : report.set_dropped(group.size));
  report.set_reissue(reissue);
  report.set_uses(group.uses);
  report.set_reason(reason);
  for (auto& [index, member] : group.members) {
    if (!member.verdict) continue;
    report.set_scored(report.scored() + 1);
    report.set_solved(report.solved() + (member.verdict->solved() ? 1 : 0));
    report.set_reward_sum(report.reward_sum() + member.verdict->reward());
  }
  Submit(PutGroupReport{report}, {});
  outbox_.Publish(kDispatchTopic, event.SerializeAsString());
}

}  // namespace tidemill
