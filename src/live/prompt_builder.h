// Prompts of a session's turns (conversation/prompt.h), as the recorder asks for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conversation/prompt.h"
#include "core/status.h"
#include "gateway/chat_request.h"
#include "gateway/served_policy.h"
#include "gateway/turn_recorder.h"
#include "model/token_id.h"

namespace tidemill {

// Thread-safe.
class PromptBuilder {
 public:
  virtual ~PromptBuilder() = default;
  // `request` gives everything but the messages. An answer that the template does not show as it
  // was drawn (older reasoning is dropped, say) is rendered and encoded like any other text.
  // Behind `tokens_max` it may end early. kInvalid: the conversation cannot be rendered or encoded.
  virtual Result<BuiltPrompt> Build(const ChatRequest& request, const WireJson& messages,
                                    const std::vector<KnownAnswer>& answers, int64_t wall_ms,
                                    size_t tokens_max) const = 0;
  // As EncodeRawPrompts.
  virtual Result<TurnPrompt> Encode(const ChatRequest& request, size_t tokens_max) const = 0;
  // The bytes a token stands for.
  virtual std::string BytesOf(TokenId id) const = 0;
  // How many tokens a text of the conversation takes.
  virtual size_t CountTokens(const std::string& text) const = 0;
};

// By the template of a served model, which must outlive it.
class TemplatePromptBuilder final : public PromptBuilder {
 public:
  explicit TemplatePromptBuilder(const ServedPolicy& policy) : policy_(policy) {}
  Result<BuiltPrompt> Build(const ChatRequest& request, const WireJson& messages,
                            const std::vector<KnownAnswer>& answers, int64_t wall_ms,
                            size_t tokens_max) const override;
  Result<TurnPrompt> Encode(const ChatRequest& request, size_t tokens_max) const override;
  std::string BytesOf(TokenId id) const override;
  size_t CountTokens(const std::string& text) const override;

 private:
  const ServedPolicy& policy_;
};

}  // namespace tidemill
