// One request on its way to its answer: choices fill with what the engine draws, and go to the
// client as it reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "gateway/answer.h"
#include "gateway/request_report.h"
#include "gateway/turn_plan.h"
#include "gateway/turn_reader.h"
#include "gateway/turn_recorder.h"
#include "http/http_reply.h"

namespace tidemill {

// A request that was understood, admitted and rendered: everything the loop needs.
struct AskedTurn {
  ChatRequest request;
  Tenant tenant;
  std::map<std::string, std::string> headers;  // TurnQuestion's
  TurnPrompt prompt;
  std::vector<PlannedChoice> choices;
  AnswerHead head;
  std::vector<std::pair<std::string, std::string>> reply_headers;
  std::unique_ptr<HttpReply> reply;
  std::shared_ptr<const void> place;  // HttpRequest::hold
  PolicyId policy = PolicyId::kMain;  // that draws the answers
  bool client_pinned = false;         // the client named the version it is answered from
  Time arrived{};
  RequestReport report;  // as far as it is known
};

// The assistant's message as a later request has it.
WireJson AnswerMessage(const ChatRequest& request, const AnswerHead& head, int choice,
                       const AnswerChoice& answer);

// Belongs to one loop; not thread-safe.
class LiveAnswer {
 public:
  // `policy` must outlive it. `slow_bytes`: so many wait for the client before what follows is kept
  // as text instead.
  LiveAnswer(std::unique_ptr<AskedTurn> asked, const ServedPolicy& policy, size_t slow_bytes);

  const AskedTurn& asked() const { return *asked_; }
  HttpReply& reply() { return *asked_->reply; }
  int choice_count() const { return static_cast<int>(choices_.size()); }

  // The request to the engine for one choice, under the id `sequence`.
  SequenceStart Start(int choice, SequenceId sequence, uint64_t share_group);

  // True: with this the choice is complete; it is told once Stored was called.
  bool Push(int choice, const TurnDelta& delta, Time now);
  // The choice as it stands, for the recorder.
  RecordedTurn Record(int choice) const;
  void Stored(int choice);
  // Writes what can be written; after the last choice the end.
  void Flush(Time now);
  // Keeps an idle stream alive.
  void Beat(Time now, Duration every);
  // The client is told, or what was begun is cut.
  void Fail(const ApiError& error, Time now);
  // The client left.
  void Leave(Time now);

  bool over() const { return over_; }
  void Started(Time now) { asked_->report.queue_s = Seconds(now - asked_->arrived); }
  // Complete only when it is over.
  const RequestReport& report() const { return asked_->report; }

 private:
  enum class State : uint8_t { kRunning, kComplete, kStored, kTold };
  struct Choice {
    explicit Choice(TurnReader r) : reader(std::move(r)) {}
    TurnReader reader;
    TurnOutput output;
    AnswerChoice answer;
    AnswerDelta held;  // for a client that reads slowly
    State state = State::kRunning;
  };

  AnswerEnd EndOf(const Choice& choice, const PlannedChoice& planned) const;
  int64_t CachedTokens() const;
  // As its client is told.
  TokenUsage Usage() const;
  std::vector<PromptRecord> PromptOf(int choice) const;
  std::string OpenStream();
  void SendWhole();
  void Finish(int status, Time now);

  const std::unique_ptr<AskedTurn> asked_;
  const ServedPolicy& policy_;
  const size_t slow_bytes_;
  std::vector<Choice> choices_;
  std::unique_ptr<AnswerStream> stream_;  // of a request for a stream
  bool open_ = false;                     // the stream's head was written
  bool over_ = false;
  Time written_{};  // when something last went to the client
};

}  // namespace tidemill
