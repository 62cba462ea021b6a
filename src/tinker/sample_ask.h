// What asample asks for, and the answer in both forms that clients read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"

namespace tidemill {

// Scores of a prompt's tokens by the weights that answer.
struct PromptScores {
  std::vector<float> logprobs;                 // of every token after the first
  std::vector<std::vector<TokenLogprob>> top;  // the same places; empty unless asked for
};

struct SampleAsk {
  std::string sampler;
  uint64_t seq = 0;
  std::vector<TokenId> prompt;
  uint32_t samples = 1;
  TurnParams turn;  // its seed and, without `own_stops`, its stop ids are the server's to say
  std::optional<uint64_t> seed;
  bool own_stops = false;
  bool length_given = false;  // else the turn may fill the context
  bool prompt_logprobs = false;
  uint32_t prompt_top = 0;
  uint32_t score_last = 0;  // tokens of the prompt that are scored; 0: all

  bool NeedsScores() const { return prompt_logprobs || prompt_top > 0; }
};

inline constexpr uint32_t kSamplesMax = 1024;  // of one request
inline constexpr uint32_t kTopMax = 20;

// kInvalid names the field, or what is not supported.
Result<SampleAsk> ParseSampleAsk(std::string_view body);

struct SampleAnswer {
  std::vector<TurnOutput> turns;
  std::optional<PromptScores> scores{};
};
// Protobuf, and what clients that ask for JSON get.
std::string SampleAnswerBytes(const SampleAsk& ask, const SampleAnswer& answer);
Result<std::string> SampleAnswerJson(std::string_view bytes);

}  // namespace tidemill
