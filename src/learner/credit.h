// Which turn earned what: from the verdicts of a batch to one advantage for each turn of each
// episode.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "learner/advantages.h"
#include "learner/group_question.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

enum class CreditKind : uint8_t {
  kEpisode,  // every turn gets its episode's advantage
  kTurn,     // plus: its return against those of the group's members in the same turn
  kState,    // plus: its return against those of the group's turns that began in the same workspace
};

// kInvalid names the known ones.
Result<CreditKind> ParseCredit(std::string_view name);

// DAPO's soft punishment of episodes that come near the limit of tokens: 0 up to
// max_tokens - buffer_tokens, falling to -1 at max_tokens.
struct OverlongShaping {
  uint32_t max_tokens = 0;     // 0: off
  uint32_t buffer_tokens = 0;  // 0: -1 above max_tokens, 0 else
  double weight = 1.0;
};
double OverlongPenalty(const OverlongShaping& shaping, uint64_t generated_tokens);

struct CreditConfig {
  CreditKind kind = CreditKind::kEpisode;
  double turn_weight = 1.0;  // of the comparison of turns
  double discount = 1.0;     // of later turns' rewards in a turn's return
  OverlongShaping overlong;
  GroupFunction group{};  // may be empty: every member is trained on, and the objective compares
};

Status ValidateCredit(const CreditConfig& config);

// The reward of an episode with the shaping for its length.
double ShapedReward(const CreditConfig& config, const v1::Sample& sample);

// Rewards of each turn: the verdict's, and the shaped reward of the episode on the last. kInvalid:
// the verdict has another number of turn rewards than the trajectory turns, or a reward is no
// number.
Result<std::vector<double>> TurnRewards(const CreditConfig& config, const v1::Sample& sample);

// ComputeAdvantages of the samples' groups, those of each role apart.
std::vector<double> CompareWithinRoles(AdvantageKind kind,
                                       std::span<const v1::Sample* const> samples,
                                       std::span<const double> rewards);

// Out of it [sample][turn]. A turn nobody can be compared with adds nothing to its episode's
// advantage. `given`: the episodes' advantages instead of a comparison, one a sample; empty: they
// are compared. kInvalid as for TurnRewards, with the trajectory's name.
Result<std::vector<std::vector<double>>> AssignCredit(const CreditConfig& config,
                                                      AdvantageKind advantage,
                                                      std::span<const v1::Sample* const> samples,
                                                      std::span<const double> given = {});

}  // namespace tidemill
