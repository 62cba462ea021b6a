#include "learner/credit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "core/ids.h"

namespace tidemill {
namespace {

// Turns that may be compared: of one role of one group, and in the same turn or the same workspace.
using Meeting = std::tuple<uint64_t, std::string, std::string>;

// The workspace a turn begins in: what the last call before it left behind. "start" before any
// call.
std::vector<std::string> StatesBefore(const v1::Trajectory& trajectory) {
  std::vector<std::string> states;
  std::string state = "start";
  for (const auto& turn : trajectory.turns()) {
    states.push_back(state);
    for (const auto& call : turn.calls()) {
      if (!call.tree_hash().empty()) state = call.tree_hash();
    }
  }
  return states;
}

std::vector<double> Returns(const std::vector<double>& rewards, double discount) {
  std::vector<double> returns(rewards.size());
  double following = 0;
  for (size_t t = rewards.size(); t-- > 0;) {
    following = rewards[t] + discount * following;
    returns[t] = following;
  }
  return returns;
}

struct TurnPlace {
  size_t sample;
  size_t turn;
  double turn_return;
};

}  // namespace

Result<CreditKind> ParseCredit(std::string_view name) {
  if (name == "episode") return CreditKind::kEpisode;
  if (name == "turn") return CreditKind::kTurn;
  if (name == "state") return CreditKind::kState;
  return Invalid("unknown credit \"" + std::string(name) + "\"; known are episode, turn, state");
}

double OverlongPenalty(const OverlongShaping& shaping, uint64_t generated_tokens) {
  if (shaping.max_tokens == 0) return 0;
  const auto length = static_cast<double>(generated_tokens);
  const auto limit = static_cast<double>(shaping.max_tokens);
  const auto buffer = static_cast<double>(std::min(shaping.buffer_tokens, shaping.max_tokens));
  if (length > limit) return -shaping.weight;
  if (length <= limit - buffer) return 0;
  return shaping.weight * (limit - buffer - length) / buffer;
}

Status ValidateCredit(const CreditConfig& config) {
  if (!(config.discount >= 0 && config.discount <= 1)) {
    return Invalid("the credit's discount must be from 0 to 1, got " +
                   std::to_string(config.discount));
  }
  if (config.overlong.buffer_tokens > config.overlong.max_tokens) {
    return Invalid("the over-long shaping's buffer (" +
                   std::to_string(config.overlong.buffer_tokens) +
                   " tokens) must not be above its limit (" +
                   std::to_string(config.overlong.max_tokens) + ")");
  }
  return Ok();
}

double ShapedReward(const CreditConfig& config, const v1::Sample& sample) {
  uint64_t generated = 0;
  for (const auto& turn : sample.trajectory().turns()) {
    generated += static_cast<uint64_t>(turn.ids_size());
  }
  return sample.verdict().reward() + OverlongPenalty(config.overlong, generated);
}

Result<std::vector<double>> TurnRewards(const CreditConfig& config, const v1::Sample& sample) {
  const int turns = sample.trajectory().turns_size();
  const v1::Verdict& verdict = sample.verdict();
  if (verdict.turn_rewards_size() != 0 && verdict.turn_rewards_size() != turns) {
    return Invalid("verdict with " + std::to_string(verdict.turn_rewards_size()) +
                   " turn rewards for " + std::to_string(turns) + " turns");
  }
  std::vector<double> rewards(static_cast<size_t>(turns), 0.0);
  for (int t = 0; t < verdict.turn_rewards_size(); ++t) {
    rewards[static_cast<size_t>(t)] = verdict.turn_rewards(t);
  }
  if (!rewards.empty()) rewards.back() += ShapedReward(config, sample);
  for (double reward : rewards) {
    if (!std::isfinite(reward)) return Invalid("a reward that is not a finite number");
  }
  return rewards;
}

std::vector<double> CompareWithinRoles(AdvantageKind kind,
                                       std::span<const v1::Sample* const> samples,
                                       std::span<const double> rewards) {
  std::map<std::string, std::vector<size_t>> roles;
  for (size_t i = 0; i < samples.size(); ++i) roles[samples[i]->role()].push_back(i);
  std::vector<double> advantages(samples.size(), 0.0);
  for (const auto& [role, places] : roles) {
    std::vector<double> theirs;
    std::vector<uint64_t> groups;
    for (const size_t i : places) {
      theirs.push_back(rewards[i]);
      groups.push_back(samples[i]->trajectory().id().group());
    }
    const std::vector<double> compared = ComputeAdvantages(kind, theirs, groups);
    for (size_t k = 0; k < places.size(); ++k) advantages[places[k]] = compared[k];
  }
  return advantages;
}

Result<std::vector<std::vector<double>>> AssignCredit(const CreditConfig& config,
                                                      AdvantageKind advantage,
                                                      std::span<const v1::Sample* const> samples,
                                                      std::span<const double> given) {
  std::vector<double> rewards;
  std::map<Meeting, std::vector<TurnPlace>> meetings;
  for (size_t s = 0; s < samples.size(); ++s) {
    const v1::Sample& sample = *samples[s];
    const auto& id = sample.trajectory().id();
    auto turn_rewards = TurnRewards(config, sample);
    if (!turn_rewards.ok()) {
      return turn_rewards.status().WithContext("trajectory " + TrajectoryKey::From(id).ToString());
    }
    rewards.push_back(ShapedReward(config, sample));
    if (config.kind == CreditKind::kEpisode) continue;
    const std::vector<double> returns = Returns(*turn_rewards, config.discount);
    const std::vector<std::string> states = StatesBefore(sample.trajectory());
    for (size_t t = 0; t < returns.size(); ++t) {
      const std::string place = config.kind == CreditKind::kTurn ? std::to_string(t) : states[t];
      meetings[{id.group(), sample.role(), place}].push_back({s, t, returns[t]});
    }
  }
  const std::vector<double> of_episode = given.empty()
                                             ? CompareWithinRoles(advantage, samples, rewards)
                                             : std::vector<double>(given.begin(), given.end());
  std::vector<std::vector<double>> credit(samples.size());
  for (size_t s = 0; s < samples.size(); ++s) {
    credit[s].assign(static_cast<size_t>(samples[s]->trajectory().turns_size()), of_episode[s]);
  }
  for (const auto& [meeting, places] : meetings) {
    std::vector<double> returns;
    for (const TurnPlace& place : places) returns.push_back(place.turn_return);
    const std::vector<double> compared = CompareAmong(advantage, returns);
    for (size_t k = 0; k < places.size(); ++k) {
      credit[places[k].sample][places[k].turn] += config.turn_weight * compared[k];
    }
  }
  return credit;
}

}  // namespace tidemill
