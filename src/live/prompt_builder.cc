#include "live/prompt_builder.h"

#include "gateway/plain_recorder.h"

namespace tidemill {

Result<BuiltPrompt> TemplatePromptBuilder::Build(const ChatRequest& request,
                                                 const WireJson& messages,
                                                 const std::vector<KnownAnswer>& answers,
                                                 int64_t wall_ms, size_t tokens_max) const {
  RenderInput conversation = ConversationOf(request, wall_ms);
  conversation.messages = messages;
  return BuildPrompt(policy_, conversation, answers, tokens_max);
}

Result<TurnPrompt> TemplatePromptBuilder::Encode(const ChatRequest& request,
                                                 size_t tokens_max) const {
  return EncodeRawPrompts(policy_, request, tokens_max);
}

size_t TemplatePromptBuilder::CountTokens(const std::string& text) const {
  return policy_.tokenizer.Encode(text, SpecialTokens::kAsText).size();
}

std::string TemplatePromptBuilder::BytesOf(TokenId id) const {
  return std::string(policy_.tokenizer.TokenBytes(id));
}

}  // namespace tidemill
