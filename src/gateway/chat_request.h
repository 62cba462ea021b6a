// The gateway: the policy behind the APIs that agents already speak. This file is the one internal
// form of a question, whichever API it came by.
//
//   body of an HTTP request -> ParseRequest (wire.h) -> ChatRequest -> template, engine
//   -> AnswerDelta (answer.h) -> AnswerStream or WholeBody -> bytes for the client
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/constraint/constraint_part.h"

namespace tidemill {

using WireJson = nlohmann::ordered_json;

enum class Api : uint8_t {
  kChat,         // POST /v1/chat/completions
  kCompletions,  // POST /v1/completions
  kResponses,    // POST /v1/responses
  kMessages,     // POST /v1/messages
  kCountTokens,  // POST /v1/messages/count_tokens
  kGenerate,     // POST /inference/v1/generate
  kTokenize,     // POST /tokenize
  kDetokenize,   // POST /detokenize
  kEmbeddings,   // POST /v1/embeddings
};

// The request is rendered and encoded, and nothing is drawn.
inline bool CountsOnly(Api api) {
  return api == Api::kCountTokens || api == Api::kTokenize;
}

// There is an answer that a session could record.
inline bool DrawsAnswer(Api api) {
  return !CountsOnly(api) && api != Api::kEmbeddings;
}

// Its prompts are taken as they are; there are no messages.
inline bool HasRawPrompts(Api api) {
  return api == Api::kCompletions || api == Api::kGenerate || api == Api::kEmbeddings;
}

// The bounds of a request beside the size of its body, which is the route's.
struct WireLimits {
  size_t depth = 128;           // of the JSON
  size_t values = 2'000'000;    // of the JSON, all objects, lists and scalars counted
  size_t messages = 20'000;     // items of the conversation
  size_t parts = 20'000;        // parts of one message
  size_t tools = 1'024;         // those inside namespaces counted
  size_t name_bytes = 256;      // of a tool or of a participant
  size_t stops = 16;            // stop strings
  size_t stop_bytes = 1'024;    // of one stop string
  size_t prompts = 128;         // of one completion request
  int choices = 16;             // n
  size_t answers = 256;         // of one request: its prompts times n
  int top_logprobs = 20;        // alternatives shown for a token
  bool ignore_unknown = false;  // a field nobody knows is ignored instead of refused
};

struct ToolChoice {
  enum class Kind : uint8_t { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name{};  // of kNamed, as in ChatRequest::tools
};

// The client's choices; absent: the server's default.
struct SamplingFields {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;  // 0: no bound
  std::optional<double> min_p;
  std::optional<int64_t> seed;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
  int n = 1;              // answers for each prompt
  bool logprobs = false;  // the client wants them
  int top_logprobs = 0;   // and so many alternatives
  double presence_penalty = 0, frequency_penalty = 0;
  double repetition_penalty = 1;
  std::vector<std::pair<int32_t, double>> logit_bias{};  // by token, each once
  int64_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids{};
  std::optional<int> prompt_logprobs{};  // of the prompt's tokens, with so many alternatives
};

// What the answer may be, and the field that says so.
struct AnswerShape {
  ConstraintPart part;
  std::string field;
};

// A prompt of /v1/completions and of the token route.
struct RawPrompt {
  std::string text;
  std::vector<int32_t> ids;  // instead of `text` where not empty
};

// How the client knows a tool whose canonical name is "NAMESPACE__NAME".
struct NamespacedTool {
  std::string name_space;
  std::string name;
};

struct ChatRequest {
  Api api = Api::kChat;
  std::string model;

  // As chat templates take them. A message has `role` (system, user, assistant, tool) and `content`
  // (always a string), then where they apply `reasoning_content`, `tool_calls` ([{id, type:
  // "function", function: {name, arguments}}], arguments an object, or the string as it was
  // written where that is no JSON object), `tool_call_id`, `name`, `is_error` (only true). Two
  // requests that differ only in how the client wrote the same conversation have equal messages.
  WireJson messages = WireJson::array();
  // [{type: "function", function: {name, description, parameters}}]: what the model is shown.
  WireJson tools = WireJson::array();
  std::map<std::string, NamespacedTool> namespaced;  // by the canonical name
  std::vector<RawPrompt> prompts;                    // where HasRawPrompts, else empty

  SamplingFields sampling;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  std::set<std::string> strict_tools{};  // whose calls must satisfy their schemas
  std::optional<AnswerShape> shape{};    // response_format and the like
  // The answer goes on behind this text of the assistant, which is no message of its own.
  std::optional<std::string> prefill{};
  bool echoes = false;  // the answer begins with the prompt, or with the prefill
  // For the template: chat_template_kwargs, with `enable_thinking` and `reasoning_effort` where a
  // field of the API says the same.
  WireJson template_kwargs = WireJson::object();

  bool stream = false;
  bool include_usage = false;        // in the last chunk of a stream
  bool return_token_ids = false;     // ids, log-probabilities and policy versions
  bool tokens_as_ids = false;        // log-probabilities name tokens by their ids
  bool return_token_strs = false;    // of /tokenize
  bool base64 = false;               // of /v1/embeddings: numbers are float32 in base64
  int32_t priority = 0;              // the lowest first, among those of one tenant
  bool hide_reasoning = false;       // the reasoning travels only inside an opaque field
  bool encrypted_reasoning = false;  // reasoning items carry `encrypted_content`
  // Values of the body that may name the session, by field: {"metadata.user_id", "..."}.
  std::vector<std::pair<std::string, std::string>> session_hints;
  // Fields that the Responses API repeats in its answer.
  WireJson echo = WireJson::object();
  // Paths of fields that were there and had no effect, as the table says (field_rules.h).
  std::vector<std::string> ignored;
  // Paths of fields that nobody knows.
  std::vector<std::string> unknown;
};

}  // namespace tidemill
