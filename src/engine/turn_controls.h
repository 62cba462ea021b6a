// What a turn asks for besides its sampling: penalties, biases, tokens that may not come yet, and a
// constraint. All of it is a step of its own between the model and the draw (draw_controls.h).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model/token_id.h"

namespace tidemill {

struct Constraint;

// Of a turn, as asked.
struct TurnControls {
  float presence_penalty = 0;   // off every token that the turn has; 0: off
  float frequency_penalty = 0;  // the same, times how often
  float repetition_penalty =
      1;  // logits of tokens of prompt and turn are made smaller by it; 1: off
  std::vector<std::pair<TokenId, float>> logit_bias{};  // added, each token once
  int32_t min_tokens = 0;  // no token that ends the turn is among the first so many
  std::shared_ptr<const Constraint> constraint{};
  bool record_support = false;  // what the constraint left to draw from is in TurnOutput::supports

  bool Penalizes() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1;
  }
  bool Shifts() const { return Penalizes() || !logit_bias.empty() || min_tokens > 0; }
  // Whether a draw depends on the tokens before it in another way than through the model.
  bool Any() const { return Shifts() || constraint != nullptr; }
};

}  // namespace tidemill
