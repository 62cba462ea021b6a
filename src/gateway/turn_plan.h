// How the engine is asked for the answers to one request.
#pragma once

#include <cstdint>
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

struct PlannedChoice {
  TurnParams params{};
  bool context_bound = false;  // max_new_tokens is what the context has left
};

struct TurnPlan {
  std::vector<PlannedChoice> choices{};  // n for each prompt, one prompt after another
  std::optional<ApiError> error{};       // instead
};

// `seed` is for requests that name none.
TurnPlan PlanTurns(const ServedPolicy& policy, const PlanOptions& options,
                   const ChatRequest& request, const TurnPrompt& prompt, uint64_t seed);

// The text that opens a call as the format writes it: of the tool `name`, or up to the name where
// that is empty. Empty: the format has no calls.
std::string CallOpening(ToolFormat format, std::string_view name, bool thinking_open);

}  // namespace tidemill
