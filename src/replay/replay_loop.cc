#include "replay/replay_loop.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "bus/read_message.h"
#include "core/group_token.h"
#include "core/ids.h"
#include "core/log.h"
#include "core/secret.h"
#include "core/topics.h"
#include "replay/score_request.h"
#include "tasks/case_record.h"

namespace tidemill {
namespace {

constexpr size_t kMessagesAtOnce = 256;

}  // namespace

ReplayLoop::ReplayLoop(Bus& bus, StorePort& store, const Clock& clock, Journal& journal,
                       const TaskBook& tasks, ReplayOptions options,
                       std::vector<StoredSample> stored)
    : bus_(bus),
      options_(std::move(options)),
      outbox_(bus, options_.lease_period),
      writer_(bus, store, outbox_, options_, counters_),
      book_(writer_, options_, counters_),
      versions_(options_.versions),
      parts_{bus, outbox_, writer_, book_, tasks, journal, options_, counters_},
      scoring_(parts_),
      teaching_(parts_),
      live_(parts_, versions_, clock),
      batches_(parts_, versions_, live_, clock) {
  book_.Add(scoring_);
  book_.Add(teaching_);
  Restore(std::move(stored));
}

// A database may hold what an older program let in, or what a disk damaged: it is put aside, and
// the run goes on without it.
void ReplayLoop::Restore(std::vector<StoredSample> stored) {
  std::set<uint64_t> ids;
  std::vector<std::pair<v1::TrajectoryId, std::string>> put_aside;
  for (StoredSample& sample : stored) {
    const v1::TrajectoryId id = sample.trajectory.id();
    const bool given_up = sample.trajectory.end() == v1::EPISODE_END_GIVEN_UP;
    Status usable = sample.unusable.empty() ? Ok() : Invalid(sample.unusable);
    if (usable.ok() && !sample.stale && !given_up) usable = CheckContent(sample.trajectory);
    if (!usable.ok()) {
      put_aside.emplace_back(id, usable.message());
      sample.stale = true;
      if (!sample.issued) continue;
    }
    if (sample.verdict && (!CheckMessage(*sample.verdict, options_.limits).ok() ||
                           !CheckTurnRewards(*sample.verdict, sample.trajectory).ok())) {
      sample.verdict.reset();  // it is scored again
    }
    ids.insert(id.group());
    ReplayMember& member = book_.Put(std::move(sample.trajectory));
    ReplayGroup& group = book_.at(id.group());
    for (auto& [policy, part] : group.parts) RestorePart(sample, policy, part);
    group.revision = sample.revision;
    const bool unscorable = sample.verdict && !sample.verdict->scored();
    member.excluded = member.excluded || sample.stale || unscorable || given_up;
    if (!unscorable) member.verdict = std::move(sample.verdict);
    const MemberOf about{id.group(), id.member()};
    if (!member.verdict && !member.excluded) scoring_.AskLater(Time::min(), about);
    if (teaching_.Awaits(member) && (!FromJudge(options_.hints) || member.verdict))
      teaching_.AskLater(about);
  }
  for (const auto& [id, why] : put_aside) {
    const std::string text = FailureText(Failure::kUnusable, why);
    parts_.journal.Record(
        "warning", {{"group", static_cast<double>(id.group())}},
        {{"what", "trajectory " + TrajectoryKey::From(id).ToString() + " " + text}});
    ++counters_.stale;
    counters_.stale_by_kind.Add(Failure::kUnusable);
    writer_.Record(id, Fate::kStale, text);
  }
  for (const uint64_t id : ids) book_.CompleteIfDone(id);
  scoring_.rescoring().Suspect();
}

void ReplayLoop::Attach(Waker& waker) {
  scoring_.Attach(waker);
  teaching_.Attach(waker);
  for (const std::string_view topic :
       {kTrajectoriesTopic, kVersionsTopic, kBatchRequestsTopic, kLiveEventsTopic}) {
    bus_.Subscribe(topic, waker);
  }
  writer_.Attach(waker);
}

Time ReplayLoop::Step(Time now) {
  TakeWritten(now);
  TakeVersions();  // before the trajectories that may have them
  batches_.TakeRequests();
  live_.Take();
  if (writer_.waiting() < options_.store_capacity / 2) {
    if (!draining_ || options_.empty_topic) TakeTrajectories(now);
    scoring_.TakeVerdicts(now);
    teaching_.TakeAnswers(now);
  }
  writer_.ExtendLeases(now);
  scoring_.Ask(now);
  teaching_.Ask(now);
  while (batches_.TryMake()) {
  }
  outbox_.Flush(now);
  counters_.waiting_verdicts = scoring_.open();
  counters_.waiting_teacher = teaching_.open();
  return std::min(now + (outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(100)),
                  writer_.next());
}

void ReplayLoop::TakeVersions() {
  for (Lease& lease : TakeFrom(bus_, kVersionsTopic, kMessagesAtOnce)) {
    v1::VersionPublished published;
    if (!ReadOrReject(bus_, lease, published, options_.limits)) continue;
    // The learner lives in this process: what is lost, is lost with the learner.
    (void)bus_.Ack(lease);
    if (const auto policy = options_.policies.Find(published.policy()); policy.ok()) {
      versions_.Published(*policy, published.version(), published.step());
    } else {
      LogWarn("a version that nobody can have", {{"why", policy.status().message()}});
    }
  }
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
    if (book_.Find(MemberOf{trajectory.id().group(), trajectory.id().member()}) != nullptr) {
      ++counters_.duplicates;
      (void)bus_.Ack(lease);
      continue;
    }
    if (right = CheckContent(trajectory); !right.ok()) {
      Refuse(lease, trajectory, right.message());
      continue;
    }
    trajectory.clear_token();
    v1::Trajectory keep = trajectory;
    keep.clear_log();  // for people alone: it is large, and nobody trains on it
    writer_.Put(std::move(trajectory), std::move(keep), std::move(lease), now);
  }
}

Status ReplayLoop::CheckContent(const v1::Trajectory& trajectory) const {
  const Status right = CheckMessage(trajectory, options_.limits);
  if (!right.ok()) return Invalid("Trajectory." + right.message());
  TM_RETURN_IF_ERROR(CheckRoles(trajectory, options_.policies, options_.roles));
  return CheckVersions(trajectory, options_.policies, versions_);
}

void ReplayLoop::RestorePart(const StoredSample& sample, PolicyId policy, ReplayPart& part) const {
  const std::string name = options_.policies.NameOf(policy);
  const auto own = sample.uses_of.find(name);
  const uint32_t uses = options_.roles.empty()        ? sample.uses
                        : own == sample.uses_of.end() ? 0
                                                      : own->second;
  part.uses = std::max(part.uses, uses);
  const auto& dropped = sample.dropped_of;
  part.dropped = part.dropped || std::find(dropped.begin(), dropped.end(), name) != dropped.end();
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
  record.set_stale_cause(FailureText(Failure::kRefused, why));
  record.set_failure(std::string(RowOf(Failure::kRefused).words));
  writer_.Put(record);
}

void ReplayLoop::Drain() {
  draining_ = true;
  scoring_.Drain();
  teaching_.Drain();
}

bool ReplayLoop::Drained() const {
  const Result<TopicDepth> depth = bus_.Depth(kTrajectoriesTopic);
  const bool taken = !options_.empty_topic || !depth.ok() || depth->ready + depth->leased == 0;
  return taken && writer_.waiting() == 0 && outbox_.waiting() == 0;
}

void ReplayLoop::TakeWritten(Time now) {
  for (ReplayWriter::Written& written : writer_.TakeWritten()) {
    auto* trajectory = std::get_if<v1::Trajectory>(&written.content);
    const auto* verdict = std::get_if<v1::Verdict>(&written.content);
    if (written.refused) {
      if (verdict != nullptr)
        scoring_.AskLater(now, {verdict->id().group(), verdict->id().member()});
      continue;
    }
    if (trajectory != nullptr && written.exists) {
      ++counters_.duplicates;
    } else if (trajectory != nullptr) {
      OnStored(std::move(*trajectory), now);
    } else if (verdict != nullptr) {
      OnStored(*verdict);
    }
    writer_.Done(written);
  }
}

void ReplayLoop::OnStored(v1::Trajectory trajectory, Time now) {
  ++counters_.stored;
  const MemberOf about{trajectory.id().group(), trajectory.id().member()};
  ReplayMember& member = book_.Put(std::move(trajectory));
  if (member.trajectory.end() == v1::EPISODE_END_GIVEN_UP) {
    book_.MarkGivenUp(member);
    book_.CompleteIfDone(about.group);
    return scoring_.OnMember(about, now);
  }
  if (draining_) return;
  scoring_.OnMember(about, now);
  // After the verdict where the hint is in it; the task may be unknown, and the group gone.
  if (FromJudge(options_.hints)) return;
  const ReplayMember* still = book_.Find(about);
  if (still != nullptr && teaching_.Awaits(*still)) teaching_.AskAbout(about, now);
}

void ReplayLoop::OnStored(const v1::Verdict& verdict) {
  if (!scoring_.OnStored(verdict)) return;
  const MemberOf about{verdict.id().group(), verdict.id().member()};
  const ReplayMember& member = *book_.Find(about);
  if (verdict.scored()) {
    TellMemory(member);
    if (FromJudge(options_.hints) && teaching_.Awaits(member)) teaching_.AskLater(about);
  }
  book_.CompleteIfDone(about.group);
}

// Only of what is durable: memory can find it again where this message is lost.
void ReplayLoop::TellMemory(const ReplayMember& member) {
  if (!options_.tells_memory && !options_.tells_skills) return;
  const v1::Task* task = parts_.tasks.Find(member.trajectory.id().task());
  if (task == nullptr) return;
  const std::optional<v1::CaseRecord> record = MakeCase(*task, member.trajectory, *member.verdict);
  if (!record) return;
  if (options_.tells_memory) outbox_.Publish(kMemoryCasesTopic, record->SerializeAsString());
  if (options_.tells_skills) outbox_.Publish(kSkillsCasesTopic, record->SerializeAsString());
}

}  // namespace tidemill
