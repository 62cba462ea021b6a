#include "replay/replay_loop.h"

#include <algorithm>
#include <stdexcept>

#include "bus/read_message.h"
#include "core/group_token.h"
#include "core/ids.h"
#include "core/secret.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr size_t kMessagesAtOnce = 256;

QuestionOptions AnswersIn(const char* inbox, const ReplayOptions& options, Counter& refused) {
  QuestionOptions verdicts;
  verdicts.inbox = InboxTopic(options.worker, inbox);
  verdicts.most = options.max_score_outstanding;
  verdicts.patience = options.score_patience;
  verdicts.secret = options.secret;
  verdicts.limits = options.limits;
  verdicts.refused = &refused;
  return verdicts;
}

Status CheckTurnRewards(const v1::Verdict& verdict, const v1::Trajectory& of) {
  const int turns = of.turns_size();
  if (verdict.turn_rewards_size() == 0 || verdict.turn_rewards_size() == turns) return Ok();
  return Invalid("Verdict.turn_rewards: " + std::to_string(verdict.turn_rewards_size()) + " for " +
                 std::to_string(turns) + " turns");
}

Status CheckVerdict(const v1::Verdict& verdict, const v1::Trajectory& of) {
  const TrajectoryKey judged = TrajectoryKey::From(verdict.id());
  const TrajectoryKey asked = TrajectoryKey::From(of.id());
  if (judged == asked) return CheckTurnRewards(verdict, of);
  return Invalid("Verdict.id: of " + judged.ToString() + ", asked about " + asked.ToString());
}

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
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period),
      buffer_(GroupBuffer::Make(options_.buffer).value()),
      live_(options_.live_capacity, options_.live_tenant_share),
      questions_(bus, outbox_, AnswersIn("replay", options_, counters_.refused)),
      teacher_questions_(bus, outbox_, AnswersIn("taught", options_, counters_.refused)),
      scorer_versions_(options_.scorer_versions) {
  for (const auto& [version, step] : options_.versions) Published(version, step);
  Restore(std::move(stored));
}

// A database may hold what an older program let in, or what a disk damaged: it is put aside, and
// the run goes on without it.
Status ReplayLoop::CheckStored(const StoredSample& sample) const {
  if (!sample.unusable.empty()) return Invalid(sample.unusable);
  if (sample.stale || sample.trajectory.end() == v1::EPISODE_END_GIVEN_UP) return Ok();
  return CheckContent(sample.trajectory);
}

void ReplayLoop::Restore(std::vector<StoredSample> stored) {
  std::set<uint64_t> ids;
  std::vector<std::pair<v1::TrajectoryId, std::string>> put_aside;
  for (StoredSample& sample : stored) {
    const v1::TrajectoryId id = sample.trajectory.id();
    if (const Status usable = CheckStored(sample); !usable.ok()) {
      put_aside.emplace_back(id, usable.message());
      sample.stale = true;
      if (!sample.issued) continue;
    }
    if (sample.verdict && (!CheckMessage(*sample.verdict, options_.limits).ok() ||
                           !CheckTurnRewards(*sample.verdict, sample.trajectory).ok())) {
      sample.verdict.reset();  // it is scored again
    }
    ids.insert(id.group());
    Group& group = groups_[id.group()];
    group.purpose = sample.trajectory.purpose();
    group.size = sample.trajectory.group_members();
    group.uses = std::max(group.uses, sample.uses);
    group.revision = sample.revision;
    Member& member = group.members[id.member()];
    const bool unscorable = sample.verdict && !sample.verdict->scored();
    member.excluded =
        sample.stale || unscorable || sample.trajectory.end() == v1::EPISODE_END_GIVEN_UP;
    if (!unscorable) member.verdict = std::move(sample.verdict);
    if (!member.verdict && !member.excluded) ask_again_.Put(Time::min(), {id.group(), id.member()});
    member.trajectory = std::move(sample.trajectory);
    if (NeedsTeacher(member) && (!FromJudge(options_.hints) || member.verdict))
      ask_teacher_.Put(Time::min(), {id.group(), id.member()});
  }
  for (const auto& [id, why] : put_aside) {
    journal_.Record(
        "warning", {{"group", static_cast<double>(id.group())}},
        {{"what", "trajectory " + TrajectoryKey::From(id).ToString() + " put aside: " + why}});
    ++counters_.stale;
    RecordFate(id, "stale", "put aside: " + why);
  }
  for (uint64_t id : ids) CompleteIfDone(id);
  version_rose_ = true;  // what was scored by older scorers
}

void ReplayLoop::Attach(Waker& waker) {
  questions_.Attach(waker);
  if (options_.teacher) teacher_questions_.Attach(waker);
  bus_.Subscribe(kTrajectoriesTopic, waker);
  bus_.Subscribe(kVersionsTopic, waker);
  bus_.Subscribe(kBatchRequestsTopic, waker);
  bus_.Subscribe(kLiveEventsTopic, waker);
  store_.events().Attach(waker);
}

Time ReplayLoop::Step(Time now) {
  TakeStored(now);
  TakeVersions();  // before the trajectories that may have them
  TakeBatchRequests();
  TakeLive();
  if (pending_.size() < options_.store_capacity / 2) {
    if (!draining_ || options_.empty_topic) TakeTrajectories(now);
    TakeVerdicts(now);
    TakeTaught(now);
  }
  // A lost lease means a second copy of the message, which its key gives away.
  (void)leases_.Extend(now);
  AskAgain(now);
  AskTeacherAgain(now);
  ChooseForRescoring();
  RescoreNext(now);
  while (TryMakeBatch()) {
  }
  outbox_.Flush(now);
  counters_.waiting_verdicts = questions_.open();
  counters_.waiting_teacher = teacher_questions_.open();
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
    Status right = ParseMessage(lease.body, trajectory, options_.limits);
    if (right.ok() && !SameToken(trajectory.token(), GroupToken(options_.secret, trajectory)))
      right =
          Invalid("not the token of a lease on group " + std::to_string(trajectory.id().group()));
    if (!right.ok()) {
      ++counters_.refused;
      (void)bus_.Reject(lease, right.message());
      continue;
    }
    ++counters_.received;
    if (FindMember(trajectory.id().group(), trajectory.id().member()) != nullptr) {
      ++counters_.duplicates;
      (void)bus_.Ack(lease);
      continue;
    }
    if (right = CheckContent(trajectory); !right.ok()) {
      Refuse(lease, trajectory, right.message());
      continue;
    }
    trajectory.clear_token();
    PutTrajectory put{trajectory};
    trajectory.clear_log();  // for people alone: it is large, and nobody trains on it
    Pending pending{Pending::kTrajectory, std::move(trajectory), {}};
    const uint64_t tag = Submit(std::move(put), std::move(pending));
    leases_.Hold(tag, std::move(lease), now);
  }
}

Status ReplayLoop::CheckContent(const v1::Trajectory& trajectory) const {
  const Status right = CheckMessage(trajectory, options_.limits);
  if (!right.ok()) return Invalid("Trajectory." + right.message());
  return CheckVersions(trajectory);
}

Status ReplayLoop::CheckVersions(const v1::Trajectory& trajectory) const {
  for (const v1::Turn& turn : trajectory.turns()) {
    for (const v1::VersionRun& run : turn.versions()) {
      if (versions_.Known(run.version())) continue;
      return Invalid("version " + std::to_string(run.version()) +
                     " was not published; the newest is " + std::to_string(newest_version_));
    }
  }
  return Ok();
}

// The holder of the lease sent something that cannot be used. The message is a dead letter; of the
// member an empty record stays, as of an episode of which a part of ours failed, so that its group
// comes to an end and the credit returns.
void ReplayLoop::Refuse(const Lease& lease, const v1::Trajectory& trajectory,
                        const std::string& why) {
  ++counters_.refused;
  (void)bus_.Reject(lease, why);
  if (trajectory.id().member() >= trajectory.group_members()) return;
  v1::Trajectory record;
  *record.mutable_id() = trajectory.id();
  record.mutable_id()->set_attempt(std::max(1u, trajectory.id().attempt()));
  record.set_purpose(trajectory.purpose());
  record.set_eval_name(trajectory.eval_name());
  record.set_group_members(trajectory.group_members());
  record.set_end(v1::EPISODE_END_GIVEN_UP);
  record.set_stale_cause("refused: " + why);
  Pending pending{Pending::kTrajectory, record, {}};
  Submit(PutTrajectory{std::move(record)}, std::move(pending));
}

ReplayLoop::Member* ReplayLoop::FindMember(uint64_t group_id, uint32_t index) {
  auto group = groups_.find(group_id);
  if (group == groups_.end()) return nullptr;
  auto member = group->second.members.find(index);
  return member == group->second.members.end() ? nullptr : &member->second;
}

bool ReplayLoop::Drained() const {
  const Result<TopicDepth> depth = bus_.Depth(kTrajectoriesTopic);
  const bool taken = !options_.empty_topic || !depth.ok() || depth->ready + depth->leased == 0;
  return taken && pending_.empty() && outbox_.waiting() == 0;
}

void ReplayLoop::TakeVerdicts(Time now) {
  for (auto& [about, status, verdict, lease] :
       questions_.TakeAnswers<v1::Verdict>(kMessagesAtOnce)) {
    Member* member = FindMember(about.group, about.member);
    if (member == nullptr) {  // its group left over an answer before this one
      if (status.ok()) (void)bus_.Ack(lease);
      continue;
    }
    if (status.ok()) {
      status = CheckVerdict(verdict, member->trajectory);
      if (!status.ok()) {
        ++counters_.refused;
        (void)bus_.Reject(lease, status.message());
      }
    }
    if (!status.ok()) {
      ask_again_.Put(now, about);
      continue;
    }
    verdict.clear_token();
    if (member->verdict && !Replaces(verdict, *member->verdict)) {
      (void)bus_.Ack(lease);
      ++counters_.rescore_failed;
      member->asked.clear();
      FinishRescoring(about.group);
      continue;
    }
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
      ++counters_.refused;
      if (pending.kind == Pending::kVerdict) {
        const v1::TrajectoryId& id = pending.verdict.id();
        ask_again_.Put(now, {id.group(), id.member()});
      }
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
    OnMember({id, index}, now);
    return;
  }
  if (draining_) return;
  OnMember({id, index}, now);
  // After the verdict where the hint is in it; the task may be unknown, and the group gone.
  if (FromJudge(options_.hints)) return;
  const Member* still = FindMember(id, index);
  if (still != nullptr && NeedsTeacher(*still)) AskTeacher({id, index}, now);
}

void ReplayLoop::OnVerdictStored(const v1::Verdict& verdict) {
  const uint64_t group_id = verdict.id().group();
  Member* found = FindMember(group_id, verdict.id().member());
  if (found == nullptr) return;
  Member& member = *found;
  member.asked.clear();
  NoteVersions(verdict);
  if (member.verdict) {
    member.verdict = verdict;
    ++counters_.rescored;
    FinishRescoring(group_id);
    return;
  }
  if (verdict.scored()) {
    ++counters_.scored;
    if (verdict.solved()) ++counters_.solved;
    member.verdict = verdict;
    TellMemory(member);
    if (FromJudge(options_.hints) && NeedsTeacher(member))
      ask_teacher_.Put(Time::min(), {group_id, verdict.id().member()});
  } else {
    ++counters_.unscored;
    TellUnscored(verdict);
    MarkStale(member, "unscorable: " + verdict.cause());
  }
  CompleteIfDone(group_id);
}

void ReplayLoop::MarkStale(Member& member, const std::string& reason) {
  if (member.excluded) return;
  member.excluded = true;
  ++counters_.stale;
  RecordFate(member.trajectory.id(), "stale", reason);
}

void ReplayLoop::RecordFate(const v1::TrajectoryId& id, const std::string& fate,
                            const std::string& reason) {
  Submit(PutFate{id, fate, reason}, {});
}

void ReplayLoop::CompleteIfDone(uint64_t group_id) {
  Group& group = groups_.at(group_id);
  if (group.complete || group.members.size() < group.size) return;
  for (const auto& [index, member] : group.members) {
    if (!member.excluded && (!member.verdict || NeedsTeacher(member))) return;
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
  if (DroppedAsUseless(group_id, spread)) return;
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
void ReplayLoop::Drop(uint64_t group_id, const std::string& fate, bool reissue,
                      const std::string& reason) {
  Group& group = groups_.at(group_id);
  Report(group_id, group, false, reissue, fate);
  for (auto& [index, member] : group.members) {
    if (!member.excluded) RecordFate(member.trajectory.id(), fate, reason);
  }
  Forget(group_id);
}

void ReplayLoop::Forget(uint64_t group_id) {
  auto it = groups_.find(group_id);
  for (const auto& [index, member] : it->second.members) {
    questions_.Forget(member.asked);
    teacher_questions_.Forget(member.asked_teacher);
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
