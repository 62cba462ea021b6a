// What the gateway knows of the model it serves: its words, not its weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "gateway/chat_request.h"
#include "model/generation_config.h"
#include "model/model_template.h"
#include "model/tokenizer.h"
#include "model/tool_formats/output_parser.h"

namespace tidemill {

// Immutable, thread-safe.
struct ServedPolicy {
  std::string name;
  Tokenizer tokenizer;
  std::optional<ModelTemplate> chat;  // none: only /v1/completions is answered
  std::string no_chat_reason;         // where there is no template
  OutputFormat format;
  GenerationConfig generation;   // the author's sampling, for what a request leaves open
  std::vector<TokenId> end_ids;  // each ends a turn
  int64_t context_tokens = 0;    // of the model; the engine may have less
};

// Reads tokenizer, template and configs of a model directory. A directory without a template that
// can be used is no failure (`chat` stays empty).
Result<ServedPolicy> ReadServedPolicy(const std::string& dir);

// The conversation as the template writes it, the assistant's turn opened. kInvalid: the template
// refuses it, or there is none.
Result<Rendered> RenderConversation(const ServedPolicy& policy, const ChatRequest& request,
                                    int64_t wall_ms);

}  // namespace tidemill
