#include "replay/replay_group.h"

#include <algorithm>
#include <cmath>

#include "replay/role_sample.h"

namespace tidemill {
namespace {

constexpr double kSameReward = 1e-9;

bool MayTrain(const ReplayMember& member) {
  return member.verdict && !member.excluded;
}

RewardSpread SpreadOfRole(const ReplayGroup& group, const ReplayPart& part,
                          const std::string& role) {
  RewardSpread spread;
  double low = 0, high = 0, sum = 0, squares = 0;
  for (const auto& [index, member] : group.members) {
    if (!MayTrain(member) || part.too_old.contains(index)) continue;
    if (!role.empty() && !HasRole(member.trajectory, role)) continue;
    // What an audit added is noise to this choice.
    const double reward = RewardOf(*member.verdict, role) - member.verdict->correction();
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

}  // namespace

RewardSpread SpreadOf(const ReplayGroup& group, const ReplayPart& part) {
  RewardSpread most;
  for (const std::string& role : part.roles) {
    const RewardSpread spread = SpreadOfRole(group, part, role);
    most.usable = std::max(most.usable, spread.usable);
    most.same = most.same && spread.same;
    most.deviation = std::max(most.deviation, spread.deviation);
  }
  return most;
}

size_t UsableMembers(const ReplayGroup& group) {
  return static_cast<size_t>(std::count_if(group.members.begin(), group.members.end(),
                                           [](const auto& one) { return MayTrain(one.second); }));
}

double VoteSpread(const ReplayGroup& group) {
  double most = 0;
  for (const auto& [index, member] : group.members) {
    if (!member.verdict) continue;
    for (const v1::RewardPart& part : member.verdict->parts()) {
      for (const v1::Judgement& judgement : part.judgements())
        most = std::max(most, judgement.spread());
    }
  }
  return most;
}

bool HasTokens(const ReplayGroup& group, const ReplayPart& part) {
  const auto of_part = [&](const v1::Turn& turn) {
    const auto& roles = part.roles;
    return turn.ids_size() > 0 &&
           (roles[0].empty() || std::find(roles.begin(), roles.end(), turn.role()) != roles.end());
  };
  return std::any_of(group.members.begin(), group.members.end(), [&](const auto& one) {
    const auto& turns = one.second.trajectory.turns();
    return !one.second.excluded && std::any_of(turns.begin(), turns.end(), of_part);
  });
}

}  // namespace tidemill
