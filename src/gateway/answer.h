// An answer on its way to the client: what the engine and the format parser bring, and the two
// forms it leaves in, a stream of server-sent events or one JSON body. Everything here is a value
// or a small state machine without I/O; one answer belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/chat_output.h"
#include "gateway/api_error.h"
#include "gateway/chat_request.h"

namespace tidemill {

struct TopToken {
  int32_t id = 0;
  std::string bytes{};
  float logprob = 0;
};

// One sampled token.
struct TokenRecord {
  int32_t id = 0;
  std::string bytes{};          // its text, which may be a part of a character
  float logprob = 0;            // of the model, at temperature 1
  float draw_logprob = 0;       // of the distribution it was drawn from
  uint64_t version = 0;         // of the policy; 0: not known as the token came
  std::vector<TopToken> top{};  // the likeliest, where asked for
};

// A token of the prompt; the first has no log-probability.
struct PromptRecord {
  TokenRecord token;
  bool scored = false;
};

struct TokenUsage {
  int64_t prompt = 0;
  int64_t completion = 0;
  int64_t cached = 0;     // of the prompt
  int64_t reasoning = 0;  // of the completion
};

// What one step brought for one choice. Text comes in whole characters. Tokens whose text is held
// back (part of a character, perhaps the start of a stop string) come when they are sampled.
struct AnswerDelta {
  int choice = 0;
  std::vector<OutputEvent> events{};
  std::vector<TokenRecord> tokens{};
};

struct AnswerEnd {
  enum class Reason : uint8_t {
    kTurnEnd,     // the model ended its turn
    kStopString,  // `stop` was written; it is not part of the text
    kLength,      // max_tokens
    kContext,     // no room is left in the context window
  };
  Reason reason = Reason::kTurnEnd;
  std::string stop{};
};

// The head of every answer.
struct AnswerHead {
  std::string id;     // letters and digits, one for each request: every id in the answer has it
  int64_t created_s;  // since 1970
  std::string model;  // as the client called it
  // One for each prompt, where return_token_ids asks for them.
  std::vector<std::vector<int32_t>> prompt_ids{};
};

struct AnswerPart {
  enum class Kind : uint8_t { kText, kReasoning, kCall };
  Kind kind = Kind::kText;
  std::string text{};  // of a call its arguments as they were written
  std::string name{};  // of a call
  int call = -1;       // which call, from 0
  // Of a text: which of the choice's tokens brought it.
  size_t token_begin = 0;
  size_t token_end = 0;
};

// All of one choice so far.
struct AnswerChoice {
  std::vector<AnswerPart> parts;
  std::vector<TokenRecord> tokens;
  // Where the request asks for its log-probabilities or for an echo.
  std::vector<PromptRecord> prompt;
  std::vector<float> embedding;  // of the prompt, where the request is for that
  AnswerEnd end;

  void Add(const AnswerDelta& delta);
  std::string TextOf(AnswerPart::Kind kind) const;  // all parts of that kind, one after another
  bool HasCalls() const;

 private:
  size_t attributed_ = 0;  // tokens before this one belong to parts so far
};

struct Answer {
  std::vector<AnswerChoice> choices;
  TokenUsage usage;
};

// Server-sent events: Open once, then Write as steps come, Finish once for each choice, Close once;
// or Fail at any time, after which nothing may follow. Each returns bytes to send, maybe none.
class AnswerStream {
 public:
  virtual ~AnswerStream() = default;
  // `usage` as far as it is known: the prompt's.
  virtual std::string Open(const TokenUsage& usage) = 0;
  virtual std::string Write(const AnswerDelta& delta) = 0;
  virtual std::string Finish(int choice, const AnswerEnd& end) = 0;
  virtual std::string Close(const TokenUsage& usage) = 0;
  virtual std::string Fail(const ApiError& error) = 0;
  // What keeps an idle connection open and means nothing; only between Open and Close.
  virtual std::string Heartbeat() const { return ": ping\n\n"; }
};

// How many choices the answer has: n for each prompt.
int ChoiceCount(const ChatRequest& request);

// `request` must outlive the stream.
std::unique_ptr<AnswerStream> MakeAnswerStream(const ChatRequest& request, AnswerHead head);

// The whole body.
std::string WholeBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer);

// One translator's ends of the two above.
std::unique_ptr<AnswerStream> MakeChatStream(const ChatRequest& request, AnswerHead head);
std::unique_ptr<AnswerStream> MakeCompletionsStream(const ChatRequest& request, AnswerHead head);
std::unique_ptr<AnswerStream> MakeResponsesStream(const ChatRequest& request, AnswerHead head);
std::unique_ptr<AnswerStream> MakeMessagesStream(const ChatRequest& request, AnswerHead head);
std::unique_ptr<AnswerStream> MakeGenerateStream(const ChatRequest& request, AnswerHead head);
WireJson EmbeddingsBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer);
WireJson GenerateBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer);
WireJson ChatBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer);
WireJson CompletionsBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer);
WireJson ResponsesBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer);
WireJson MessagesBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer);

// The id of a call: "call_" or "toolu_", the head's id, and which choice and call.
std::string CallId(std::string_view prefix, const AnswerHead& head, int choice, int call);

// {prompt_tokens, completion_tokens, total_tokens, ..}.
WireJson OpenAiUsage(const TokenUsage& usage);

// An OpenAI chunk with one choice is ChunkBegin(head), the choice, kChunkEnd.
std::string ChunkBegin(const WireJson& head);
inline constexpr std::string_view kChunkEnd = "]}\n\n";

// "stop", "length" or "tool_calls".
std::string_view OpenAiFinish(const AnswerEnd& end, bool has_calls);

// [{token, logprob, bytes, top_logprobs}]; a token by its id is "token_id:7".
WireJson TokenLogprobs(std::span<const TokenRecord> tokens, int alternatives,
                       bool tokens_as_ids = false);

// Adds prompt_token_ids, generation_token_ids and generation_log_probs, the last under the
// distribution the tokens were drawn from.
void AddGeneration(WireJson& object, const AnswerHead& head, std::span<const TokenRecord> tokens);

// vLLM's form: null, or the token and its alternatives by their ids.
WireJson PromptLogprobs(const std::vector<PromptRecord>& prompt);

// Adds token_ids, token_logprobs, draw_logprobs and policy_versions to `object`.
void AddTokenIds(WireJson& object, const std::vector<TokenRecord>& tokens);

}  // namespace tidemill
