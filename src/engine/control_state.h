// How far a sequence's turn has come, as its controls need to know.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/draw_controls.h"
#include "engine/turn_controls.h"

namespace tidemill {

// What a sequence keeps of its turn for the controls of its draws.
class ControlState {
 public:
  // `context`: the tokens before the turn's first draw, `forced` of them the turn's own.
  void Begin(const TurnControls& controls, const std::vector<TokenId>& context, size_t forced);
  void Take(TokenId token);
  // Of the draw that follows; null: there are none. `ends`: tokens that end the turn, `turned`: how
  // many tokens it has.
  std::shared_ptr<const DrawControls> Next(const TurnControls& controls,
                                           const std::vector<TokenId>& ends, int32_t turned);
  // ConstraintMatcher::astray.
  bool astray() const { return matcher_.astray(); }

 private:
  void Count(TokenId token, int32_t drawn);

  ConstraintMatcher matcher_;
  bool counts_ = false;
  std::vector<TokenCount> used_;  // by id
};

}  // namespace tidemill
