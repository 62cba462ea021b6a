// Losses whose advantages and weights come with every token, summed over all tokens: what somebody
// else's training loop asks for. docs/tinker.md has the formulas.
//
// p: log-probability of the target under the policy now; q: under the one that sampled; r = exp(p -
// q).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

enum class TokenLossKind : uint8_t {
  kCrossEntropy,        // -sum w p
  kImportanceSampling,  // -sum r A
  kPpo,                 // -sum min(r A, clip(r) A)
  kCispo,               // -sum clip(r) p A, nothing flows through clip(r)
  kDro,                 // -sum (p A - beta / 2 (p - q)^2)
  kGspo,                // ppo with the ratio of the sequence, exp(mean (p - q)), at every token
};

// "cross_entropy", "importance_sampling", ..; nothing: there is no such loss.
std::optional<TokenLossKind> TokenLossByName(std::string_view name);

struct TokenLoss {
  TokenLossKind kind = TokenLossKind::kCrossEntropy;
  double clip_low = 0.8;  // absolute bounds of r
  double clip_high = 1.2;
  double beta = 0;  // of kDro
};

// One sequence with what is to be predicted at each of its places. `targets` has `per_place` ids
// for each id; the others have one number for each target, or none where the loss has no use for
// them.
struct TokenRow {
  std::vector<int32_t> ids;
  std::vector<int64_t> targets;
  int64_t per_place = 1;
  std::vector<float> weights = {};     // kCrossEntropy
  std::vector<float> behaviour = {};   // q, of all others
  std::vector<float> advantages = {};  // A, of all others
  std::vector<float> ratio_mask =
      {};  // kGspo: not 0 where the token counts for the sequence's ratio
};

// kInvalid names what does not fit: numbers that are missing, too many or not finite, an id outside
// of the vocabulary, more ids than the context has.
Status CheckTokenRow(const TokenRow& row, TokenLossKind kind, int64_t vocabulary, int64_t context);

// Of one step of AdamW.
struct AdamRates {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-12;
  double weight_decay = 0;
  double clip_norm = 0;  // largest norm of the gradient; 0: off
};

struct TokenLossResult {
  double loss = 0;
  std::vector<std::vector<float>> logprobs;  // of each row's targets
};

}  // namespace tidemill
