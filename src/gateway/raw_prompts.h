// Prompts that a client writes as a whole: of /v1/completions, and what /v1/embeddings reads.
#pragma once

#include <string_view>

#include "gateway/chat_request.h"
#include "gateway/wire_object.h"

namespace tidemill {

// A text, token ids, or a list of either.
void ReadPrompts(const WireObject& body, std::string_view key, ChatRequest& request);

}  // namespace tidemill
