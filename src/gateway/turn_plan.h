// How the engine is asked for the answers to one request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "gateway/api_error.h"
#include "gateway/chat_request.h"
#include "gateway/served_policy.h"
#include "gateway/turn_recorder.h"

namespace tidemill {

// For what a request leaves open.
struct SamplingDefaults {
  double temperature = 1;
  double top_p = 1;
  int32_t top_k = 0;
  double min_p = 0;
};
// As the model's author wants it; without an author's word, the full distribution.
SamplingDefaults DefaultsFrom(const GenerationConfig& generation);

struct PlanOptions {
  SamplingDefaults defaults{};
  int64_t context_tokens = 0;  // of the engine
  int64_t answer_tokens = 0;   // the most of an answer; 0: what fits
};

// TurnQuestion::prompt_tokens_max: a prompt that does not fit is counted so far, and what is longer
// costs no more than that.
inline size_t CountedTokens(const PlanOptions& options) {
  return 2 * static_cast<size_t>(options.context_tokens);
}

struct PlannedChoice {
  TurnParams params{};
  bool context_bound = false;  // max_new_tokens is what the context has left
};

struct TurnPlan {
  std::vector<PlannedChoice> choices{};  // n for each prompt, one prompt after another
  std::optional<ApiError> error{};       // instead
  bool too_long = false;                 // of the error: the prompt leaves no room in the context
};

// Where a prompt leaves no room for an answer, the error that says so. `more`: TurnPrompt's
// tokens_more.
std::optional<ApiError> CheckPromptFits(const ChatRequest& request, size_t tokens, size_t more,
                                        int64_t context_tokens);

struct PlanUse {
  uint64_t seed = 0;                               // for requests that name none
  std::shared_ptr<const Constraint> constraint{};  // on each answer
};
TurnPlan PlanTurns(const ServedPolicy& policy, const PlanOptions& options,
                   const ChatRequest& request, const TurnPrompt& prompt, const PlanUse& use);

// The text that opens a call as the format writes it: of the tool `name`, which is from outside, or
// up to the name where that is empty. No text: the format has no calls.
Rendered CallOpening(ToolFormat format, std::string_view name, bool thinking_open);

}  // namespace tidemill
