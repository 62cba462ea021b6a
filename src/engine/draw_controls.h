// What changes logits before a token is drawn.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/constraint/token_mask.h"
#include "model/token_id.h"

namespace tidemill {

// A token and how often it came.
struct TokenCount {
  TokenId id = 0;
  int32_t drawn = 0;  // in the turn
};

// Of one draw. Immutable.
struct DrawControls {
  float presence_penalty = 0, frequency_penalty = 0, repetition_penalty = 1;
  std::vector<TokenCount> used{};  // each token once
  std::vector<std::pair<TokenId, float>> logit_bias{};
  std::vector<TokenId> not_yet{};  // they come only where nothing else may
  std::shared_ptr<const TokenMask> mask{};
  bool record_support = false;

  bool Shifts() const { return !used.empty() || !logit_bias.empty() || !not_yet.empty(); }
};

}  // namespace tidemill
