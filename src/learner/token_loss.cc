#include "learner/token_loss.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tidemill {
namespace {

struct NamedLoss {
  std::string_view name;
  TokenLossKind kind;
};

constexpr NamedLoss kTokenLosses[] = {
    {"cross_entropy", TokenLossKind::kCrossEntropy},
    {"importance_sampling", TokenLossKind::kImportanceSampling},
    {"ppo", TokenLossKind::kPpo},
    {"cispo", TokenLossKind::kCispo},
    {"dro", TokenLossKind::kDro},
    {"gspo", TokenLossKind::kGspo},
};

Status CheckNumbers(const std::vector<float>& numbers, std::string_view name, size_t wanted) {
  if (numbers.size() != wanted) {
    return Invalid("\"" + std::string(name) + "\" has " + std::to_string(numbers.size()) +
                   " numbers and should have " + std::to_string(wanted) +
                   ", as many as target_tokens");
  }
  const auto bad = std::find_if_not(numbers.begin(), numbers.end(),
                                    [](float number) { return std::isfinite(number); });
  if (bad == numbers.end()) return Ok();
  return Invalid("\"" + std::string(name) + "\" is not a finite number at place " +
                 std::to_string(bad - numbers.begin()));
}

template <typename Id>
Status CheckIds(const std::vector<Id>& ids, std::string_view name, int64_t vocabulary) {
  const auto bad = std::find_if(ids.begin(), ids.end(),
                                [&](Id id) { return id < 0 || int64_t{id} >= vocabulary; });
  if (bad == ids.end()) return Ok();
  return Invalid("\"" + std::string(name) + "\" has the token " + std::to_string(*bad) +
                 ", which is not in the vocabulary of " + std::to_string(vocabulary));
}

}  // namespace

std::optional<TokenLossKind> TokenLossByName(std::string_view name) {
  for (const NamedLoss& loss : kTokenLosses) {
    if (loss.name == name) return loss.kind;
  }
  return std::nullopt;
}

Status CheckTokenRow(const TokenRow& row, TokenLossKind kind, int64_t vocabulary, int64_t context) {
  if (row.ids.empty()) return Invalid("the model input has no tokens");
  if (static_cast<int64_t>(row.ids.size()) > context) {
    return Invalid("the model input has " + std::to_string(row.ids.size()) +
                   " tokens; the model's context has " + std::to_string(context));
  }
  const size_t targets = row.ids.size() * static_cast<size_t>(row.per_place);
  if (row.per_place < 1 || row.targets.size() != targets) {
    return Invalid("\"target_tokens\" has " + std::to_string(row.targets.size()) + " tokens for " +
                   std::to_string(row.ids.size()) + " of the model input; each token has a target");
  }
  TM_RETURN_IF_ERROR(CheckIds(row.ids, "model_input", vocabulary));
  TM_RETURN_IF_ERROR(CheckIds(row.targets, "target_tokens", vocabulary));
  if (kind == TokenLossKind::kCrossEntropy) return CheckNumbers(row.weights, "weights", targets);
  if (row.per_place != 1) {
    return Invalid("only cross_entropy takes several targets a token");
  }
  TM_RETURN_IF_ERROR(CheckNumbers(row.behaviour, "logprobs", targets));
  TM_RETURN_IF_ERROR(CheckNumbers(row.advantages, "advantages", targets));
  if (kind != TokenLossKind::kGspo) return Ok();
  return CheckNumbers(row.ratio_mask, "sequence_ratio_mask", targets);
}

}  // namespace tidemill
