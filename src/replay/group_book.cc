#include "replay/group_book.h"

#include <algorithm>
#include <utility>

#include "replay/staleness.h"

namespace tidemill {
namespace {

// Whose steps may still use it.
std::vector<PolicyId> LiveParts(const ReplayGroup& group, uint32_t max_uses) {
  std::vector<PolicyId> live;
  for (const auto& [policy, part] : group.parts) {
    if (part.live(max_uses)) live.push_back(policy);
  }
  return live;
}

}  // namespace

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
  const Status right = CheckRoles(member.trajectory, options_.policies, options_.roles);
  if (!right.ok()) {
    MarkStale(member, Failure::kUnusable, right.message());
    return member;
  }
  for (const PolicyId policy : PoliciesOfTurns(member.trajectory, options_.policies).value()) {
    if (options_.frozen.contains(policy)) continue;
    if (options_.roles.empty() && !group.parts.empty() && !group.parts.contains(policy)) {
      MarkStale(member, Failure::kUnusable, "another policy than that of its group drew it");
    } else if (!group.parts.contains(policy)) {
      group.parts.emplace(policy, ReplayPart{.roles = RolesOf(policy)});
    }
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
  if (UsableMembers(group) < std::min<size_t>(2, group.size)) return Drop(id, Fate::kStale);
  if (group.parts.empty() && !options_.roles.empty()) {
    counters_.untrainable += group.size;
    return Drop(id, Fate::kUntrainable, "no role that is trained has a turn");
  }
  if (group.parts.empty()) group.parts[PolicyId::kMain];  // no turn: the default policy's
  DropUseless(id);
  if (Find(id) == nullptr) return;
  Accept(id);
  if (LiveParts(group, options_.max_uses).empty()) return Forget(id);  // as a run before used it
  for (MemberWork* work : works_) work->Buffered(group);
  for (const PolicyId policy : LiveParts(group, options_.max_uses)) {
    if (Find(id) != nullptr) Buffer(id, policy);
  }
}

std::vector<std::string> GroupBook::RolesOf(PolicyId policy) const {
  if (options_.roles.empty()) return {""};
  std::vector<std::string> roles;
  for (const auto& [role, draws] : options_.roles) {
    if (draws == policy) roles.push_back(role);
  }
  return roles;
}

void GroupBook::Buffer(uint64_t id, PolicyId policy) {
  ReplayGroup& group = groups_.at(id);
  ReplayPart& part = group.parts.at(policy);
  part.in_buffer = true;
  counters_.ready_episodes += group.size;
  const std::optional<ItemKey> evicted =
      BufferOf(policy).Insert(id, SpreadOf(group, part).deviation, part.uses);
  if (!evicted) return;
  counters_.evicted += groups_.at(*evicted).size;
  DropPart(*evicted, policy, Fate::kEvicted);
}

std::optional<std::pair<Fate, std::string>> GroupBook::WhyUseless(const ReplayGroup& group,
                                                                  const ReplayPart& part) {
  if (options_.drop_untrainable && !HasTokens(group, part)) {
    counters_.untrainable += group.size;
    return std::pair(Fate::kUntrainable, "no member of the group has a token to train");
  }
  const RewardSpread spread = SpreadOf(group, part);
  // Others of the group have no turn of the role, so there is nothing to compare it with.
  if (spread.usable < std::min<size_t>(2, group.size)) {
    counters_.untrainable += group.size;
    return std::pair(Fate::kUntrainable, "fewer than two members of the group have the role");
  }
  if (!options_.drop_zero_variance || group.size < 2 || !spread.same) return std::nullopt;
  counters_.zero_variance += group.size;
  return std::pair(Fate::kZeroVariance, "");
}

// Each part that a step would learn nothing from.
void GroupBook::DropUseless(uint64_t id) {
  for (const PolicyId policy : LiveParts(groups_.at(id), options_.max_uses)) {
    const ReplayGroup* group = Find(id);
    if (group == nullptr) return;
    const auto why = WhyUseless(*group, group->parts.at(policy));
    if (why) DropPart(id, policy, why->first, why->second);
  }
}

void GroupBook::RewardsChanged(uint64_t id) {
  DropUseless(id);
  const ReplayGroup* group = Find(id);
  if (group == nullptr) return;
  for (const auto& [policy, part] : group->parts) {
    if (part.in_buffer) BufferOf(policy).SetPriority(id, SpreadOf(*group, part).deviation);
  }
}

void GroupBook::LeaveBuffer(uint64_t id, PolicyId policy) {
  ReplayGroup& group = groups_.at(id);
  ReplayPart& part = group.parts.at(policy);
  if (part.in_buffer) counters_.ready_episodes -= group.size;
  part.in_buffer = false;
  BufferOf(policy).Remove(id);
}

void GroupBook::DropPart(uint64_t id, PolicyId policy, Fate fate, const std::string& reason) {
  ReplayGroup& group = groups_.at(id);
  LeaveBuffer(id, policy);
  group.parts.at(policy).dropped = true;
  const bool all = std::all_of(group.parts.begin(), group.parts.end(),
                               [](const auto& one) { return one.second.dropped; });
  if (all) return Drop(id, fate, reason);
  const bool over = LiveParts(group, options_.max_uses).empty();
  // Else the first report on the group is still to come.
  if (group.accepted || over) Accept(id);
  if (over) Forget(id);
}

void GroupBook::Use(uint64_t id, PolicyId policy) {
  ReplayGroup& group = groups_.at(id);
  ++group.parts.at(policy).uses;
  if (!BufferOf(policy).Use(id)) return;
  LeaveBuffer(id, policy);
  if (LiveParts(group, options_.max_uses).empty()) Forget(id);
}

void GroupBook::Accept(uint64_t id) {
  v1::GroupReport report;
  report.set_accepted(groups_.at(id).size);
  groups_.at(id).accepted = true;
  Report(id, std::move(report));
}

// The report goes first: should the process end in between, the ledger must say what became of it.
void GroupBook::Drop(uint64_t id, Fate fate, const std::string& reason) {
  const ReplayGroup& group = groups_.at(id);
  v1::GroupReport report;
  report.set_dropped(group.size);
  for (auto& [policy, part] : groups_.at(id).parts) part.dropped = true;
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
  for (const auto& [policy, part] : it->second.parts) LeaveBuffer(id, policy);
  groups_.erase(it);
}

void GroupBook::Report(uint64_t id, v1::GroupReport report) {
  ReplayGroup& group = groups_.at(id);
  report.set_group(id);
  report.set_revision(++group.revision);
  for (const auto& [policy, part] : group.parts) {
    report.set_uses(std::max(report.uses(), part.uses));
    if (options_.roles.empty() || options_.policies.size() == 1) continue;
    v1::PolicyCredit& credit = *report.add_credits();
    credit.set_policy(options_.policies.NameOf(policy));
    (part.dropped ? credit.set_dropped(group.size) : credit.set_accepted(group.size));
    credit.set_uses(part.uses);
  }
  for (const auto& [index, member] : group.members) {
    if (!member.verdict) continue;
    report.set_scored(report.scored() + 1);
    report.set_solved(report.solved() + (member.verdict->solved() ? 1 : 0));
    report.set_reward_sum(report.reward_sum() + member.verdict->reward());
  }
  writer_.Report(report);
}

}  // namespace tidemill
