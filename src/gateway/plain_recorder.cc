#include "gateway/plain_recorder.h"

#include "conversation/prompt.h"

namespace tidemill {

Result<TurnPrompt> PlainRecorder::Prepare(const TurnQuestion& question) {
  if (!question.request.prompts.empty()) {
    return EncodeRawPrompts(policy_, question.request, question.prompt_tokens_max);
  }
  TM_ASSIGN_OR_RETURN(BuiltPrompt built,
                      BuildPrompt(policy_, ConversationOf(question.request, question.wall_ms), {},
                                  question.prompt_tokens_max));
  TurnPrompt prompt;
  prompt.prompts.push_back(std::move(built.ids));
  prompt.tokens_more = built.more;
  prompt.thinking_open = built.thinking_open;
  if (question.request.prefill && prompt.tokens_more == 0) {
    // What is continued is an answer, not a thought.
    const std::string close = prompt.thinking_open ? "\n</think>\n\n" : "";
    std::vector<TokenId>& ids = prompt.prompts[0];
    policy_.tokenizer.EncodeTo(close, SpecialTokens::kRecognise, ids);
    policy_.tokenizer.EncodeTo(*question.request.prefill, SpecialTokens::kAsText, ids);
    prompt.thinking_open = false;
  }
  return prompt;
}

Result<TurnPrompt> EncodeRawPrompts(const ServedPolicy& policy, const ChatRequest& request,
                                    size_t tokens_max) {
  TurnPrompt prompt;
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const RawPrompt& raw = request.prompts[i];
    const std::string name = "prompt[" + std::to_string(i) + "]";
    // Behind a prompt that is too long the others do not matter any more.
    const size_t most = prompt.tokens_more > 0 ? 0 : tokens_max;
    auto encoded = raw.ids.empty() ? policy.tokenizer.EncodeBounded(raw.text, {}, most)
                                   : Result<Tokenizer::Bounded>({.ids = raw.ids});
    if (!encoded.ok()) return encoded.status().WithContext(name);
    if (encoded->empty()) return Invalid(name + ": has no tokens; at least one is needed");
    prompt.prompts.push_back(std::move(encoded->ids));
    prompt.tokens_more += encoded->more;
  }
  return prompt;
}

}  // namespace tidemill
