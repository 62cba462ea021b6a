#include "gateway/plain_recorder.h"

namespace tidemill {

Result<TurnPrompt> PlainRecorder::Prepare(const TurnQuestion& question) {
  TurnPrompt prompt;
  if (question.request.api == Api::kCompletions) {
    TM_ASSIGN_OR_RETURN(prompt.prompts, EncodeRawPrompts(policy_, question.request));
    return prompt;
  }
  TM_ASSIGN_OR_RETURN(const Rendered rendered,
                      RenderConversation(policy_, question.request, question.wall_ms));
  prompt.prompts.push_back(EncodeRendered(policy_.tokenizer, rendered));
  if (prompt.prompts[0].empty()) return Invalid("the template renders nothing of the conversation");
  prompt.thinking_open = LeavesThinkingOpen(rendered.text);
  return prompt;
}

Result<std::vector<std::vector<TokenId>>> EncodeRawPrompts(const ServedPolicy& policy,
                                                           const ChatRequest& request) {
  std::vector<std::vector<TokenId>> prompts;
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const RawPrompt& raw = request.prompts[i];
    prompts.push_back(raw.ids.empty() ? policy.tokenizer.Encode(raw.text, SpecialTokens::kRecognise)
                                      : raw.ids);
    if (prompts.back().empty()) {
      return Invalid("prompt[" + std::to_string(i) + "]: has no tokens; at least one is needed");
    }
  }
  return prompts;
}

}  // namespace tidemill
