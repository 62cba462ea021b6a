#include "engine/control_state.h"

#include <algorithm>

namespace tidemill {

void ControlState::Count(TokenId token, int32_t drawn) {
  const auto at = std::lower_bound(used_.begin(), used_.end(), token,
                                   [](const TokenCount& use, TokenId id) { return use.id < id; });
  if (at != used_.end() && at->id == token) {
    at->drawn += drawn;
  } else {
    used_.insert(at, {.id = token, .drawn = drawn});
  }
}

void ControlState::Begin(const TurnControls& controls, const std::vector<TokenId>& context,
                         size_t forced) {
  matcher_ = ConstraintMatcher(controls.constraint);
  counts_ = controls.Penalizes();
  used_.clear();
  const size_t before = context.size() - forced;
  if (controls.repetition_penalty != 1) {
    std::vector<TokenId> ids(context.begin(),
                             context.begin() + static_cast<std::ptrdiff_t>(before));
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (const TokenId id : ids) used_.push_back({.id = id});
  }
  for (size_t i = before; i < context.size(); ++i) Take(context[i]);
}

void ControlState::Take(TokenId token) {
  matcher_.Take(token);
  if (counts_) Count(token, 1);
}

std::shared_ptr<const DrawControls> ControlState::Next(const TurnControls& controls,
                                                       const std::vector<TokenId>& ends,
                                                       int32_t turned) {
  if (!controls.Any()) return nullptr;
  auto next = std::make_shared<DrawControls>();
  next->presence_penalty = controls.presence_penalty;
  next->frequency_penalty = controls.frequency_penalty;
  next->repetition_penalty = controls.repetition_penalty;
  next->used = used_;
  next->logit_bias = controls.logit_bias;
  if (turned < controls.min_tokens) next->not_yet = ends;
  if (matcher_.on()) {
    next->mask = matcher_.Mask();
    if (next->mask->count() == 0) next->mask = nullptr;  // nothing fits, and nothing ends a turn
  }
  next->record_support = controls.record_support;
  return next;
}

}  // namespace tidemill
