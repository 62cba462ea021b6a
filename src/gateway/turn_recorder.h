// The seam between the gateway and what remembers conversations: which ids a turn starts with, and
// what was drawn.
//
//   ChatRequest, tenant, headers -> Prepare -> prompt ids -> engine -> RecordedTurn -> Finished
//   -> (stored) -> the client sees the end
//
// PlainRecorder (plain_recorder.h) renders and encodes and remembers nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"
#include "gateway/chat_request.h"
#include "gateway/tenant.h"

namespace tidemill {

// A request that was understood and admitted. What it refers to lives until its last choice was
// reported.
struct TurnQuestion {
  const ChatRequest& request;
  const Tenant& tenant;
  // Names in lower case, the last of a repeated one; credentials (authorization, x-api-key, cookie)
  // are left out.
  const std::map<std::string, std::string>& headers;
  std::string request_id;  // one for each HTTP request, also in its answer
  std::string body_sha256;
  int64_t wall_ms = 0;
  // A prompt with more need not be encoded to its end: its first ids, more than these, will do.
  size_t prompt_tokens_max = std::numeric_limits<size_t>::max();
};

// How an answer is drawn whatever the client asked for.
struct TurnSampling {
  SamplingParams sampling{};
  uint64_t seed = 0;
  int32_t max_new_tokens = 0;  // the most; a client may ask for less
};

struct TurnPrompt {
  // One for each of ChatRequest::prompts; of a conversation one. None is empty where `tokens_more`
  // is 0.
  std::vector<std::vector<TokenId>> prompts{};
  // At least so many tokens of the prompts are not in them: encoding ended behind
  // TurnQuestion::prompt_tokens_max. 0: all are.
  size_t tokens_more = 0;
  bool thinking_open = false;  // the prompt ends inside of a think block
  uint64_t session = 0;        // SequenceStart::session
  std::string session_name{};  // told to the client in a header; empty: nothing is told
  std::optional<uint64_t> pin_version{};
  std::optional<TurnSampling> sampling{};  // instead of the client's
  uint64_t ticket = 0;                     // the recorder's own: comes back with every choice
};

// One choice of the answer. Choices of a prompt come one after another: choice / n is the prompt.
struct RecordedTurn {
  uint64_t ticket = 0;
  int choice = 0;
  TurnParams params{};  // as the engine was asked: sampling, stops, seed, forced tokens
  TurnOutput output{};  // all of it
  // The answer as it comes back in a later request's messages (chat_request.h). null: of
  // /v1/completions, which has no messages.
  WireJson message = nullptr;
};

// Why a choice does not come to its end, by whose fault it is. An agent's episode goes on after its
// own, and is given up after ours.
enum class TurnLoss : uint8_t {
  kClientLeft,  // it hung up
  kRefused,     // what it asked for cannot be: a token or a policy version that is not there
  kTooLong,     // its prompt leaves no room in the context
  kOurs,        // the engine, the store, the end of the server
};

// A client's feedback on an answer or a session, by POST /v1/feedback.
struct FeedbackPost {
  const Tenant& tenant;
  std::string_view body;
  std::string session;  // that URL or header name; empty: none
  int64_t wall_ms = 0;
};

// All calls may come from any thread, several at a time, but for one ticket: Prepare, then one of
// Finished and Abandoned for each choice. A request that only counts tokens (Api::kCountTokens) is
// prepared and nothing follows.
class TurnRecorder {
 public:
  virtual ~TurnRecorder() = default;

  // Called by a worker, may take as long as rendering does. kInvalid: the conversation cannot be
  // rendered (the client is told 400 and the message); kExists: 409; kFull: 429; else 503.
  virtual Result<TurnPrompt> Prepare(const TurnQuestion& question) = 0;

  // Whether ChatRequest::prefill can be answered.
  virtual bool Continues() const { return false; }

  // The turn is complete. Must not block: `stored` is called once, from any thread or inside of
  // this call, when the client may see the end. A failure is shown to the client as an error of
  // the server.
  virtual void Finished(RecordedTurn turn, std::function<void(Status)> stored) = 0;

  // The choice ends before its end: what was drawn so far, maybe nothing. Must not block.
  virtual void Abandoned(RecordedTurn turn, TurnLoss loss, const Status& why) = 0;

  // A request of the session that a key is bound to (Tenant::session) was refused.
  virtual void Refused(const std::string&, int, const std::string&) {}

  // Must not block: `answered` is called once, from any thread or inside of this call, with the
  // body of the answer when the feedback is durable. kInvalid: 400; kNotFound: 404; else as
  // Prepare.
  virtual void TakeFeedback(const FeedbackPost& post,
                            std::function<void(Result<std::string>)> answered) {
    (void)post;
    answered(
        NotFound("this server records no sessions: start it with --run, or train with "
                 "live.on"));
  }
};

}  // namespace tidemill
