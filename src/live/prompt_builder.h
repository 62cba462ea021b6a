// The prompt of a turn: the template renders the whole conversation, what the model wrote stands in
// it as the ids that were drawn, and everything else is encoded with special tokens off for what
// came from the conversation.
//
//   messages, known answers -> render with marks -> cut at the marks -> encode | ids | encode ..
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "gateway/chat_request.h"
#include "gateway/served_policy.h"
#include "gateway/turn_recorder.h"
#include "model/token_id.h"

namespace tidemill {

// An answer of the model in a conversation, as it was drawn.
struct KnownAnswer {
  size_t message = 0;          // which of the messages it is
  std::vector<TokenId> ids{};  // up to the first that a stop string touches
  std::string tail{};          // text behind them that the client was given
  bool reasoning = false;      // it begins with reasoning
};

struct BuiltPrompt {
  std::vector<TokenId> ids{};
  size_t more = 0;             // at least so many tokens follow; 0: these are all
  bool thinking_open = false;  // it ends inside of a think block
};

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
