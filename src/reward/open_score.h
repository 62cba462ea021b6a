// An episode that is being scored: what its scorers asked for and what is known by now.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/clock.h"
#include "proto/tidemill.pb.h"
#include "reward/reward_options.h"

namespace tidemill {

// Something a scorer needs that was asked for and has no answer yet.
struct OpenNeed {
  Need need;
  uint32_t tries = 0;
};

struct OpenScore {
  v1::ScoreRequest request;
  Time began{};
  ScoreEvidence evidence{};
  std::map<std::string, OpenNeed> open{};  // by Need::Key()
  uint32_t rounds = 0;                     // how often scorers named what they need
};

using OpenScores = std::unordered_map<uint64_t, OpenScore>;

// The subject of a question.
struct NeedOf {
  uint64_t score;
  std::string need;
};

// The scorer's weight in this task; nothing: it has no part in it.
inline std::optional<double> WeightOf(const WeightedScorer& weighted,
                                      const v1::ScoreRequest& request) {
  if (request.weights().empty()) {
    return weighted.by_default ? std::optional(weighted.weight) : std::nullopt;
  }
  for (const v1::ScorerWeight& own : request.weights()) {
    if (own.scorer() == weighted.scorer->name()) return own.weight();
  }
  return std::nullopt;
}

}  // namespace tidemill
