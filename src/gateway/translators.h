// One translator for each API: a body in, a ChatRequest out. No I/O. `parse` keeps the first error;
// the request is worth nothing after one. The writers of answers are in answer.h.
#pragma once

#include "gateway/chat_request.h"
#include "gateway/wire_object.h"

namespace tidemill {

void ReadChatBody(const WireObject& body, ChatRequest& request);
// Of a conversation alone: messages, tools and what the template is given.
void ReadConversation(const WireObject& body, ChatRequest& request);
void ReadGenerateBody(const WireObject& body, ChatRequest& request);
void ReadTokenizeBody(const WireObject& body, ChatRequest& request);
void ReadDetokenizeBody(const WireObject& body, ChatRequest& request);
void ReadEmbeddingsBody(const WireObject& body, ChatRequest& request);
void ReadCompletionsBody(const WireObject& body, ChatRequest& request);
void ReadResponsesBody(const WireObject& body, ChatRequest& request);
// Also of count_tokens, which needs no max_tokens.
void ReadMessagesBody(const WireObject& body, ChatRequest& request);

}  // namespace tidemill
