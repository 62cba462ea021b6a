#include "replay/group_book.h"

#include <algorithm>
#include <utility>

namespace tidemill {

GroupBook::GroupBook(ReplayWriter& writer, const ReplayOptions& options, ReplayCounters& counters)
    : writer_(writer), options_(options), counters_(counters) {}

GroupBuffer& GroupBook::BufferOf(PolicyId policy) {
  const auto found = buffers_.find(policy);
  if (found != buffers_.end()) return found->second;
  return buffers_.emplace(policy, GroupBuffer::Make(options_, options_.seed).value()).first->second;
}

ReplayGroup* GroupBook::Find(uint64_t group) {
  const auto it = groups_.find(group);
  return it == groups_.end() ? nullptr : &it->second;
}

ReplayMember* GroupBook::Find(const MemberOf& about) {
  ReplayGroup* group = Find(about.group);
  if (group == nullptr) return nullptr;
  const auto member = group->members.find(about.member);
  return member == group->members.end() ? nullptr : &member->second;
}

ReplayMember& GroupBook::Put(v1::Trajectory trajectory) {
  ReplayGroup& group = groups_[trajectory.id().group()];
  group.purpose = trajectory.purpose();
  group.size = trajectory.group_members();
  ReplayMember& member = group.members[trajectory.id().member()];
  member.trajectory = std::move(trajectory);
  const auto policy = PolicyOf(member.trajectory, options_.policies);
  const std::optional<PolicyId> drew = policy.ok() ? *policy : std::nullopt;
  if (!policy.ok()) {
    MarkStale(member, Failure::kUnusable, policy.status().message());
  } else if (drew && group.policy.value_or(*drew) != *drew) {
    MarkStale(member, Failure::kUnusable, "another policy than that of its group drew it");
  } else if (drew) {
    group.policy = drew;
  }
  return member;
}

void GroupBook::MarkStale(ReplayMember& member, Failure failure, std::string_view detail) {
  Exclude(member, failure, FailureText(failure, detail));
}

void GroupBook::MarkGivenUp(ReplayMember& member) {
  const v1::Trajectory& trajectory = member.trajectory;
  Exclude(member, FailureNamed(trajectory.failure()).value_or(Failure::kUnusable),
          trajectory.stale_cause());
}

void GroupBook::Exclude(ReplayMember& member, Failure failure, const std::string& reason) {
  if (member.excluded) return;
  member.excluded = true;
  ++counters_.stale;
  counters_.stale_by_kind.Add(failure);
  writer_.Record(member.trajectory.id(), Fate::kStale, reason);
}

void GroupBook::CompleteIfDone(uint64_t id) {
  ReplayGroup& group = groups_.at(id);
  if (group.complete || group.members.size() < group.size) return;
  for (const auto& [index, member] : group.members) {
    const bool awaited = std::any_of(works_.begin(), works_.end(),
                                     [&](const MemberWork* work) { return work->Awaits(member); });
    if (!member.excluded && awaited) return;
  }
  group.complete = true;
  if (group.purpose == v1::PURPOSE_EVAL) {
    Accept(id);
    return Forget(id);
  }
  const RewardSpread spread = SpreadOf(group);
  if (spread.usable < std::min<size_t>(2, group.size)) return Drop(id, Fate::kStale);
  if (DroppedAsUseless(id, spread)) return;
  Accept(id);
  for (MemberWork* work : works_) work->Buffered(group);
  group.in_buffer = true;
  counters_.ready_episodes += group.size;
  const std::optional<ItemKey> evicted =
      BufferOf(group.learner()).Insert(id, spread.deviation, group.uses);
  if (!evicted) return;
  counters_.evicted += groups_.at(*evicted).size;
  Drop(*evicted, Fate::kEvicted);
}

bool GroupBook::DroppedAsUseless(uint64_t id, const RewardSpread& spread) {
  const ReplayGroup& group = groups_.at(id);
  if (options_.drop_untrainable && !HasTokens(group)) {
    counters_.untrainable += group.size;
    Drop(id, Fate::kUntrainable, "no member of the group has a token to train");
    return true;
  }
  if (!options_.drop_zero_variance || group.size < 2 || !spread.same) return false;
  counters_.zero_variance += group.size;
  Drop(id, Fate::kZeroVariance);
  return true;
}

void GroupBook::Accept(uint64_t id) {
  v1::GroupReport report;
  report.set_accepted(groups_.at(id).size);
  Report(id, std::move(report));
}

// The report goes first: should the process end in between, the ledger must say what became of it.
void GroupBook::Drop(uint64_t id, Fate fate, const std::string& reason) {
  const ReplayGroup& group = groups_.at(id);
  v1::GroupReport report;
  report.set_dropped(group.size);
  report.set_reissue(RowOf(fate).reissued);
  report.set_reason(FateName(fate));
  Report(id, std::move(report));
  for (const auto& [index, member] : group.members) {
    if (!member.excluded) writer_.Record(member.trajectory.id(), fate, reason);
  }
  Forget(id);
}

void GroupBook::Forget(uint64_t id) {
  const auto it = groups_.find(id);
  for (const auto& [index, member] : it->second.members) {
    for (MemberWork* work : works_) work->Forget(id, member);
  }
  if (it->second.in_buffer) counters_.ready_episodes -= it->second.size;
  BufferOf(it->second.learner()).Remove(id);
  groups_.erase(it);
}

void GroupBook::Report(uint64_t id, v1::GroupReport report) {
  ReplayGroup& group = groups_.at(id);
  report.set_group(id);
  report.set_revision(++group.revision);
  report.set_uses(group.uses);
  for (const auto& [index, member] : group.members) {
    if (!member.verdict) continue;
    report.set_scored(report.scored() + 1);
    report.set_solved(report.solved() + (member.verdict->solved() ? 1 : 0));
    report.set_reward_sum(report.reward_sum() + member.verdict->reward());
  }
  writer_.Report(report);
}

}  // namespace tidemill
