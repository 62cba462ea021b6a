// The served model as the gateway knows it: its words, not its weights.
#pragma once

#include <cstdint>
#include <string>

#include "conversation/model_chat.h"
#include "core/status.h"
#include "gateway/chat_request.h"

namespace tidemill {

// Immutable, thread-safe. Without a template only /v1/completions is answered.
struct ServedPolicy : ModelChat {
  std::string name;
  int64_t context_tokens = 0;  // of the model; the engine may have less
};

// Reads tokenizer, template and configs of a model directory. A directory without a template that
// can be used is no failure (`chat` stays empty).
Result<ServedPolicy> ReadServedPolicy(const std::string& dir);

// The template's input for a request, with the assistant's turn opened.
RenderInput ConversationOf(const ChatRequest& request, int64_t wall_ms);

}  // namespace tidemill
