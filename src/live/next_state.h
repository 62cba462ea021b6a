// The next message of a conversation as evidence on the answer before it: judges read both, and
// what they say becomes a signal on the turn, trusted less than programs and people.
//
//   a turn is durable -> NextStateOf: the answer before it, what came next -> judge.requests
//   -> JudgeAnswer -> Signal (source "judge")
//
// A judge that is away is asked again later, and given up in the end: then nothing is said of the
// turn. One that finds that the message says nothing of the answer gives no signal either.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bus/outbox.h"
#include "bus/questions.h"
#include "live/live_counters.h"
#include "live/session.h"
#include "proto/session.pb.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct NextStateOptions {
  std::vector<std::string> judges{};             // names of those that are asked; none: nobody is
  std::string worker = "local";                  // whose inbox the answers come to
  std::string secret{};                          // of this process
  Duration patience = std::chrono::minutes(10);  // of one question
  Duration retry_delay = std::chrono::seconds(5);
  uint32_t retries = 6;
  size_t most = 1024;  // questions open at once; above it turns are passed over
};

// How a deletion finds what was made from a session.
inline std::string JudgedSession(uint64_t session) {
  return "s" + std::to_string(session);
}
// The session that a question or its answer is of, by its id; 0: of none.
uint64_t SessionOfQuestion(const std::string& request_id);

// A turn and what came next, as judges read it.
struct NextState {
  uint32_t turn = 0;  // that is judged
  v1::JudgeRequest request{};
};
// The messages that the conversation of `turn` adds to the one before its last answer; nothing:
// there is no such answer, or it is not trained (a side turn, one that was cut, one with secrets,
// no consent).
std::optional<NextState> NextStateOf(const Session& session, uint32_t turn);

// Belongs to one loop; not thread-safe. Bus, outbox and counters are borrowed.
class NextStateJudges {
 public:
  NextStateJudges(Bus& bus, Outbox& outbox, NextStateOptions options, LiveCounters& counters);

  // Opens the inbox.
  void Attach(Waker& waker);
  // Asks every judge about the answer that the turn goes on from.
  void Ask(const Session& session, uint32_t turn, Time now);
  // Signals without a revision; tries again what failed.
  std::vector<v1::Signal> Take(Time now, int64_t wall_ms);
  // Nothing of the session is asked again, and no answer on it is wanted.
  void Forget(uint64_t session);

  size_t open() const { return questions_.open() + waiting_; }
  Time next() const { return later_.next(); }

 private:
  struct About {
    v1::JudgeRequest request;
    uint64_t session = 0;
    uint32_t turn = 0;
    uint32_t tries = 0;
  };
  void Send(About about, Time now);
  void TryAgain(About about, Time now);

  Bus& bus_;
  const NextStateOptions options_;
  Questions<About> questions_;
  LaterQueue<About> later_;
  size_t waiting_ = 0;  // in later_
  std::set<uint64_t> forgotten_;
  LiveCounters& counters_;
};

}  // namespace tidemill
