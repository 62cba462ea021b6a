// Fields that several APIs have for the same: what changes logits before a draw, and what the
// answer may be.
#pragma once

#include "gateway/chat_request.h"
#include "gateway/wire_object.h"

namespace tidemill {

// Penalties, biases, min_tokens, ignore_eos, stop_token_ids, prompt_logprobs.
void ReadControls(const WireObject& body, SamplingFields& out);

// response_format and the names that other servers have for the same: guided_json, guided_regex,
// guided_choice, guided_grammar, structured_outputs, json_schema, grammar. One of them at most.
void ReadAnswerShape(const WireObject& body, ChatRequest& request);

// {type: "json_schema", schema: ..} or {type: "json_object"} or {type: "text"}, as the field
// `format` of the object `holder`.
void ReadFormat(const WireObject& holder, std::string_view key, std::string_view where,
                ChatRequest& request);

// Takes an assistant's last message off the conversation: the answer goes on behind its text. An
// error where there is none, or where it has calls.
void TakePrefill(const WireObject& body, ChatRequest& request);

}  // namespace tidemill
