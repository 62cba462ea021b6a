#include "replay/rescoring.h"

#include <algorithm>
#include <utility>

namespace tidemill {

bool Replaces(const v1::Verdict& verdict, const v1::Verdict& before) {
  if (!verdict.scored()) return false;
  for (const v1::RewardPart& part : verdict.parts()) {
    for (const v1::RewardPart& old : before.parts()) {
      if (old.scorer() == part.scorer() && part.scorer_version() < old.scorer_version())
        return false;
    }
  }
  return true;
}

void Rescoring::Note(const v1::Verdict& verdict) {
  for (const v1::RewardPart& part : verdict.parts()) {
    auto [known, first] = highest_.try_emplace(part.scorer(), part.scorer_version());
    if (first || part.scorer_version() <= known->second) continue;
    known->second = part.scorer_version();
    rose_ = true;
  }
}

bool Rescoring::Outdated(const ReplayMember& member) const {
  if (!member.verdict || member.excluded) return false;
  const auto& parts = member.verdict->parts();
  return std::any_of(parts.begin(), parts.end(), [&](const v1::RewardPart& part) {
    const auto known = highest_.find(part.scorer());
    return known != highest_.end() && part.scorer_version() < known->second;
  });
}

void Rescoring::Buffered(const ReplayGroup& group) {
  for (const auto& [index, member] : group.members) rose_ = rose_ || Outdated(member);
}

void Rescoring::Choose() {
  if (!std::exchange(rose_, false)) return;
  std::vector<std::pair<double, uint64_t>> outdated;
  for (const auto& [id, group] : book_.all()) {
    if (!group.in_buffer() || rescoring_.contains(id)) continue;
    const bool any = std::any_of(group.members.begin(), group.members.end(),
                                 [&](const auto& entry) { return Outdated(entry.second); });
    if (!any) continue;
    double deviation = 0;
    for (const auto& [policy, part] : group.parts) {
      deviation = std::max(deviation, SpreadOf(group, part).deviation);
    }
    outdated.emplace_back(-deviation - VoteSpread(group), id);
  }
  std::sort(outdated.begin(), outdated.end());
  if (outdated.size() > options_.rescore_groups) outdated.resize(options_.rescore_groups);
  to_rescore_.clear();
  for (const auto& [deviation, id] : outdated) to_rescore_.push_back(id);
}

std::vector<MemberOf> Rescoring::TakeDue() {
  Choose();
  std::vector<MemberOf> due;
  while (!to_rescore_.empty() && rescoring_.size() < options_.rescore_at_once) {
    const uint64_t id = to_rescore_.front();
    to_rescore_.pop_front();
    const ReplayGroup* group = book_.Find(id);
    if (group == nullptr) continue;  // used up, or gone, meanwhile
    for (const auto& [index, member] : group->members) {
      const bool known = tasks_.Find(member.trajectory.id().task()) != nullptr;
      if (!known || !Outdated(member) || !member.asked.empty()) continue;
      rescoring_.insert(id);
      due.push_back({id, index});
    }
  }
  return due;
}

void Rescoring::Answered(uint64_t id) {
  const ReplayGroup& group = book_.at(id);
  for (const auto& [index, member] : group.members) {
    if (!member.asked.empty()) return;
  }
  rescoring_.erase(id);
  book_.RewardsChanged(id);
}

}  // namespace tidemill
