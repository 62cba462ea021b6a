// Asking with patience: the requests that a loop has sent and that still lack their answer.
//
//   Ask --outbox--> topic .. inbox --TakeAnswers--> the answer, with what it was asked about
//                     `- no answer while patience lasts --TakeLost--> asked again, or given up
//
// An answer is taken only from whoever got the request: it bears the request's token. The room it
// has reserved in the inbox is free again once it came, is lost or is no longer wanted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bus/bus.h"
#include "bus/outbox.h"
#include "core/counters.h"
#include "core/message_check.h"
#include "core/secret.h"

namespace tidemill {

// How long to wait before the next try: `first`, doubled with every try there was, 64 times `first`
// at most.
inline Duration BackOff(Duration first, uint32_t tries_before) {
  return first * (1 << std::min(tries_before, 6u));
}

// Tasks for a later time, the earliest first. Belongs to one loop; not thread-safe.
template <class What>
class LaterQueue {
 public:
  void Put(Time at, What what) { waiting_.emplace(at, std::move(what)); }
  std::vector<What> TakeDue(Time now) {
    std::vector<What> due;
    while (!waiting_.empty() && waiting_.begin()->first <= now) {
      due.push_back(std::move(waiting_.begin()->second));
      waiting_.erase(waiting_.begin());
    }
    return due;
  }
  // When something is due; kNever: nothing waits.
  Time next() const { return waiting_.empty() ? kNever : waiting_.begin()->first; }

 private:
  std::multimap<Time, What> waiting_;
};

struct QuestionOptions {
  std::string inbox;   // where the answers come in; belongs to the asker alone
  size_t most = 1024;  // questions open at once: the room of the inbox
  Duration patience = std::chrono::minutes(10);  // an answer that takes longer was lost
  std::string secret;                            // what the tokens are made from
  MessageLimits limits;                          // of an answer
  Counter* refused = nullptr;                    // counts dead letters; may be null
};

// Belongs to one loop; not thread-safe. `About` is the loop's own note of what a question was for.
// Questions are told apart by the `request_id` of their messages.
template <class About>
class Questions {
 public:
  template <class Answer>
  struct Answered {
    About about;
    // kInvalid: it came from the one asked but cannot be used. It is a dead letter already, and
    // there will be no other.
    Status status;
    Answer answer;
    Lease lease;  // to be acknowledged, unless `status` says otherwise
  };
  struct Lost {
    std::string id;
    About about;
  };

  // The bus, the outbox and the counter are borrowed.
  Questions(Bus& bus, Outbox& outbox, QuestionOptions options)
      : bus_(bus), outbox_(outbox), options_(std::move(options)) {}

  const std::string& inbox() const { return options_.inbox; }
  size_t open() const { return open_.size(); }

  // Opens the inbox; throws where that fails.
  void Attach(Waker& waker) {
    const Status opened = bus_.Open(inbox(), Room());
    if (!opened.ok()) throw std::runtime_error("opening " + inbox() + ": " + opened.ToString());
    bus_.Subscribe(inbox(), waker);
  }

  // Sends the request, which has its id, with a token and the inbox for its answer. One with the id
  // of an open question takes its place.
  template <class Request>
  void Ask(std::string_view topic, Request request, About about, Time now) {
    const std::string& id = request.request_id();
    request.set_token(TokenOf(id));
    request.set_reply_to(inbox());
    Forget(id);
    const auto deadline = deadlines_.emplace(now + options_.patience, id);
    open_.emplace(id, Open{std::move(about), deadline});
    outbox_.Request(topic, inbox(), request.SerializeAsString());
  }

  // The answers to open questions, which are closed by that. Whatever else is in the inbox is
  // acknowledged (a second answer, one that is no longer wanted) or a dead letter (no such message,
  // a wrong token).
  template <class Answer>
  std::vector<Answered<Answer>> TakeAnswers(size_t max) {
    std::vector<Answered<Answer>> answers;
    for (Lease& lease : TakeFromOwn(bus_, inbox(), Room(), max)) {
      Answer answer;
      if (const Status read = ParseMessage(lease.body, answer, options_.limits); !read.ok()) {
        Refuse(lease, read.message());
        continue;
      }
      const auto question = open_.find(answer.request_id());
      if (question == open_.end()) {
        (void)bus_.Ack(lease);
        continue;
      }
      if (!SameToken(answer.token(), TokenOf(question->first))) {
        Refuse(lease, "not the token of request " + question->first);
        continue;
      }
      Status right = CheckMessage(answer, options_.limits);
      if (!right.ok()) {
        right = Invalid(answer.GetDescriptor()->name() + "." + right.message());
        Refuse(lease, right.message());
      }
      answers.push_back({std::move(question->second.about), std::move(right), std::move(answer),
                         std::move(lease)});
      deadlines_.erase(question->second.deadline);
      open_.erase(question);
    }
    return answers;
  }

  // The questions whose patience is over, in the order they were asked; they are closed by that.
  // Where the bus lost messages, all that is open is: the question or its answer may be among them.
  std::vector<Lost> TakeLost(Time now) {
    std::vector<Lost> lost;
    const uint64_t losses = bus_.Losses();
    const bool all = std::exchange(losses_, losses) != losses;
    while (!deadlines_.empty() && (all || deadlines_.begin()->first <= now)) {
      const std::string id = deadlines_.begin()->second;
      lost.push_back({id, std::move(open_.at(id).about)});
      Forget(id);
    }
    return lost;
  }

  // The answer is no longer wanted. Does nothing where no such question is open.
  void Forget(const std::string& id) {
    const auto question = open_.find(id);
    if (question == open_.end()) return;
    deadlines_.erase(question->second.deadline);
    open_.erase(question);
    (void)bus_.Forgive(inbox(), 1);
  }

  // The asker leaves, and its inbox with it.
  void Clear() {
    open_.clear();
    deadlines_.clear();
  }

 private:
  using Deadlines = std::multimap<Time, std::string>;  // to the id
  struct Open {
    About about;
    Deadlines::iterator deadline;
  };

  TopicOptions Room() const { return {.capacity = options_.most}; }
  std::string TokenOf(const std::string& id) const {
    return TokenFor(options_.secret, "request " + id);
  }
  void Refuse(const Lease& lease, const std::string& why) {
    if (options_.refused != nullptr) ++*options_.refused;
    (void)bus_.Reject(lease, why);
  }

  Bus& bus_;
  Outbox& outbox_;
  QuestionOptions options_;
  std::unordered_map<std::string, Open> open_;  // by request id
  Deadlines deadlines_;
  uint64_t losses_ = 0;  // of the bus, at the last look
};

}  // namespace tidemill
