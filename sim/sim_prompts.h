// A template and a tokenizer for simulated conversations: a few ids for each message, drawn ids
// where an answer is known. And the mistake that a simple memory would make.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "live/prompt_builder.h"
#include "sim/sim_store.h"
#include "store/store_port.h"

namespace tidemill::sim {

class SimPrompts final : public PromptBuilder {
 public:
  static constexpr TokenId kBegin = 1, kAnswer = 2, kEnd = 3;

  Result<BuiltPrompt> Build(const ChatRequest& request, const WireJson& messages,
                            const std::vector<KnownAnswer>& answers, int64_t wall_ms,
                            size_t tokens_max) const override;
  Result<TurnPrompt> Encode(const ChatRequest& request, size_t tokens_max) const override;
  std::string BytesOf(TokenId id) const override { return std::to_string(id); }
  size_t CountTokens(const std::string& text) const override { return text.size(); }
};

// Before a session's close is stored, its trajectories become one for each branch, with all turns
// of the branch trained.
std::unique_ptr<StorePort> NaiveBranches(std::unique_ptr<StorePort> port, const SimStore& store);

}  // namespace tidemill::sim
