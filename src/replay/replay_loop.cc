#include "replay/replay_loop.h"

#include <algorithm>
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
      leases_(bus, options_.lease_period) {
  for (const auto& [version, step] : options_.versions) versions_.Published(version, step);
  for (StoredSample& sample : stored) {
    const v1::TrajectoryId& id = sample.trajectory.id();
    Group& group = groups_[id.group()];
    group.purpose = sample.trajectory.purpose();
    group.size = sample.trajectory.group_members();
    group.uses = std::max(group.uses, sample.uses);
    group.revision = 1;  // above any report of the run before
    Member& member = group.members[id.member()];
    member.stale = sample.trajectory.end() == v1::EPISODE_END_GIVEN_UP;
    member.verdict = std::move(sample.verdict);
    if (!member.verdict && !member.stale) member.ask_again = Time::min();
    member.trajectory = std::move(sample.trajectory);
  }
  std::vector<uint64_t> ids;
  for (auto& [id, group] : groups_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (uint64_t id : ids) CompleteIfDone(id);
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
  TakeBatchRequests();
  while (TryMakeBatch()) {
  }
  outbox_.Flush(now);
  counters_.ready_episodes = 0;
  for (uint64_t id : ready_) counters_.ready_episodes += groups_.at(id).size;
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
  const bool taken =
      !options_.empty_topic || !depth.ok() || depth->ready + depth->leased == 0;
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
    const bool wanted = group != groups_.end() && !group->second.complete &&
                        group->second.members.count(verdict.id().member()) != 0;
    if (!wanted) {
      (void)bus_.Ack(lease);
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

void ReplayLoop::AskForVerdict(uint64_t group_id, uint32_t index, Time now) {
  Member& member = groups_.at(group_id).members.at(index);
  const v1::Trajectory& trajectory = member.trajectory;
  const v1::Task* task = tasks_.Find(trajectory.id().task());
  if (task == nullptr) {
    MarkStale(member, "the task is not in this run's task files");
    CompleteIfDone(group_id);
    return;
  }
  v1::ScoreRequest request;
  ++member.score_tries;
  request.set_request_id(std::to_string(group_id) + "." + std::to_string(index) + "." +
                         std::to_string(trajectory.id().attempt()) + ".s" +
                         std::to_string(member.score_tries) + "@" + options_.worker);
  *request.mutable_id() = trajectory.id();
  request.set_purpose(trajectory.purpose());
  request.set_end(trajectory.end());
  *request.mutable_tree() = trajectory.tree();
  *request.mutable_grading() = task->grading();
  for (const v1::Turn& turn : trajectory.turns()) {
    v1::ToolCall& last = *request.add_last_calls();
    if (turn.calls_size() > 0) last = turn.calls(turn.calls_size() - 1);
    request.set_generated_tokens(request.generated_tokens() +
                                 static_cast<uint32_t>(turn.ids_size()));
  }
  request.set_turns(static_cast<uint32_t>(trajectory.turns_size()));
  request.set_max_tokens(options_.max_turn_tokens * request.turns());
  request.set_reply_to(inbox_);
  request.set_prompt(task->prompt());
  request.set_submission(trajectory.submission());
  if (!task->answer_file().empty()) request.add_files(task->answer_file());
  for (const std::string& source : task->grading().sources()) {
    if (source != task->answer_file()) request.add_files(source);
  }
  member.ask_again = now + options_.score_patience;
  next_ask_ = std::min(next_ask_, member.ask_again);
  ++counters_.waiting_verdicts;
  outbox_.Request(kScoreTopic, inbox_, request.SerializeAsString());
}

void ReplayLoop::AskAgain(Time now) {
  if (now < next_ask_ || draining_) return;
  next_ask_ = now + std::max<Duration>(options_.score_patience / 20, milliseconds(50));
  std::vector<std::pair<uint64_t, uint32_t>> lost;
  for (auto& [id, group] : groups_) {
    if (group.complete) continue;
    for (auto& [index, member] : group.members) {
      if (!member.verdict && !member.stale && member.ask_again <= now) lost.emplace_back(id, index);
    }
  }
  for (auto [id, index] : lost) {
    Member& member = groups_.at(id).members.at(index);
    if (member.score_tries > 0) {
      (void)bus_.Forgive(inbox_, 1);
      --counters_.waiting_verdicts;
    }
    if (member.score_tries < options_.score_tries) {
      AskForVerdict(id, index, now);
    } else {
      MarkStale(member, "no verdict after " + std::to_string(member.score_tries) + " tries");
      CompleteIfDone(id);
    }
  }
}

void ReplayLoop::OnVerdictStored(const v1::Verdict& verdict) {
  auto group = groups_.find(verdict.id().group());
  if (group == groups_.end() || group->second.complete) return;
  auto it = group->second.members.find(verdict.id().member());
  if (it == group->second.members.end() || it->second.verdict || it->second.stale) return;
  Member& member = it->second;
  --counters_.waiting_verdicts;
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

void ReplayLoop::CompleteIfDone(uint64_t group_id) {
  Group& group = groups_.at(group_id);
  if (group.complete || group.members.size() < group.size) return;
  double low = 0, high = 0;
  size_t usable = 0;
  for (auto& [index, member] : group.members) {
    if (!member.verdict && !member.stale) return;
    if (!member.verdict) continue;
    const double reward = member.verdict->reward();
    low = usable == 0 ? reward : std::min(low, reward);
    high = usable == 0 ? reward : std::max(high, reward);
    ++usable;
  }
  group.complete = true;
  if (group.purpose == v1::PURPOSE_EVAL) {
    Report(group_id, group, true, false, "");
    groups_.erase(group_id);
    return;
  }
  if (usable < std::min<size_t>(2, group.size)) {
    Drop(group_id, "stale", true);
  } else if (options_.drop_zero_variance && group.size > 1 && high - low < kSameReward) {
    counters_.zero_variance += group.size;
    Drop(group_id, "zero_variance", false);
  } else {
    ready_.push_back(group_id);
    Report(group_id, group, true, false, "");
  }
}

void ReplayLoop::Drop(uint64_t group_id, const std::string& fate, bool reissue) {
  Group& group = groups_.at(group_id);
  for (auto& [index, member] : group.members) {
    if (!member.stale) RecordFate(member.trajectory.id(), fate, "");
  }
  Report(group_id, group, false, reissue, fate);
  groups_.erase(group_id);
}

void ReplayLoop::Report(uint64_t group_id, Group& group, bool accepted, bool reissue,
                        const std::string& reason) {
  v1::DispatchEvent event;
  v1::GroupReport& report = *event.mutable_group();
  report.set_group(group_id);
  report.set_revision(++group.revision);
  (accepted ? report.set_accepted(group.size) : report.set_dropped(group.size));
  report.set_reissue(reissue);
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

void ReplayLoop::TakeBatchRequests() {
  for (Lease& lease : TakeFrom(bus_, kBatchRequestsTopic, kMessagesAtOnce)) {
    v1::BatchRequest request;
    if (!request.ParseFromString(lease.body) || request.episodes() == 0) {
      (void)bus_.Reject(lease, "not a BatchRequest");
      continue;
    }
    // The learner lives in this process: a request that is lost, is lost with the learner.
    (void)bus_.Ack(lease);
    versions_.Published(request.version(), request.version_step());
    if (last_batch_ && request.step() <= last_batch_->first) {
      // A repetition. The same groups again, or they would be used up without having been used.
      if (request.step() == last_batch_->first)
        outbox_.Reply(request.reply_to(), last_batch_->second);
      continue;
    }
    request_ = std::move(request);
  }
}

// Whether the group may be used for this step. Leaves out what is too old; a group of which less
// than two remain is dropped and its task issued again.
bool ReplayLoop::Usable(uint64_t group_id, Group& group, const v1::BatchRequest& request) {
  const int64_t now_ms = clock_.WallMs();
  size_t left = 0;
  for (auto& [index, member] : group.members) {
    if (member.stale) continue;
    const TokenAges ages =
        MeasureAges(member.trajectory, versions_, request.step(), now_ms, options_.staleness);
    const bool keep = options_.staleness.mask ? ages.too_old < ages.tokens : ages.too_old == 0;
    if (keep) {
      ++left;
      continue;
    }
    member.stale = true;
    ++counters_.too_old;
    RecordFate(member.trajectory.id(), "too_old",
               "lag of " + std::to_string(ages.max_lag) + " steps");
  }
  if (left >= std::min<size_t>(2, group.size)) return true;
  Drop(group_id, "too_old", true);
  return false;
}

bool ReplayLoop::TryMakeBatch() {
  if (!request_) return false;
  const v1::BatchRequest& request = *request_;
  uint32_t episodes = 0;
  size_t taken = 0;
  while (episodes < request.episodes() && taken < ready_.size()) {
    const uint64_t id = ready_[taken];
    Group& group = groups_.at(id);
    const uint32_t size = group.size;
    if (!Usable(id, group, request)) {
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(taken));
      continue;
    }
    episodes += size;
    ++taken;
  }
  if (episodes < request.episodes()) return false;

  v1::Batch batch;
  batch.set_step(request.step());
  batch.set_learner_version(request.version());
  std::deque<uint64_t> again;
  for (size_t i = 0; i < taken; ++i) {
    const uint64_t id = ready_.front();
    ready_.pop_front();
    Group& group = groups_.at(id);
    for (auto& [index, member] : group.members) {
      if (member.stale || !member.verdict) continue;
      v1::Sample& sample = *batch.add_samples();
      *sample.mutable_trajectory() = member.trajectory;
      *sample.mutable_verdict() = *member.verdict;
      sample.set_uses(group.uses);
      const uint32_t masked = MaskTooOld(*sample.mutable_trajectory(), versions_, request.step(),
                                         clock_.WallMs(), options_.staleness);
      sample.set_masked_tokens(masked);
      counters_.masked_tokens += masked;
      ++counters_.used;
    }
    if (++group.uses < options_.max_uses)
      again.push_back(id);
    else
      groups_.erase(id);
  }
  for (uint64_t id : again) ready_.push_back(id);
  last_batch_.emplace(request.step(), batch.SerializeAsString());
  outbox_.Reply(request.reply_to(), last_batch_->second);
  request_.reset();
  return true;
}

}  // namespace tidemill
