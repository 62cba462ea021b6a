#include "replay/replay_group.h"

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

constexpr double kSameReward = 1e-9;

}  // namespace

RewardSpread SpreadOf(const ReplayGroup& group) {
  RewardSpread spread;
  double low = 0, high = 0, sum = 0, squares = 0;
  for (const auto& [index, member] : group.members) {
    if (!member.verdict || member.excluded) continue;
    // What an audit added is noise to this choice.
    const double reward = member.verdict->reward() - member.verdict->correction();
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

bool HasTokens(const ReplayGroup& group) {
  return std::any_of(group.members.begin(), group.members.end(), [](const auto& one) {
    const auto& turns = one.second.trajectory.turns();
    return !one.second.excluded && std::any_of(turns.begin(), turns.end(), [](const auto& turn) {
      return turn.ids_size() > 0;
    });
  });
}

}  // namespace tidemill
