// The teacher loop: has sequences scored by a teacher, beside the learner.
//
//   teacher.requests --lease--> sequences --> TeacherPort --> TeacherAnswer
//                                               `- failed: again later
//
// Nobody waits for it: an episode without its scores is in a later batch. A teacher that stays away
// is reported as such; it never becomes a score.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "bus/questions.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "proto/tidemill.pb.h"
#include "teacher/teacher_config.h"
#include "teacher/teacher_port.h"

namespace tidemill {

class Metrics;

struct TeacherOptions : TeacherConfig {
  uint32_t max_outstanding = 4096;  // requests held
  Duration retry_delay = milliseconds(500);
  Duration lease_period = std::chrono::seconds(10);
  Metrics* metrics = nullptr;  // may be null; must outlive the loop
  MessageLimits limits;
};

// Read from any thread.
struct TeacherCounters : CounterSet {
  Counter answers{*this,
                  {.key = "taught",
                   .metric = "tidemill_taught_total",
                   .help = "Episodes that the teacher scored"}};
  Counter unavailable{*this,
                      {.key = "teacher_unavailable",
                       .metric = "tidemill_teacher_unavailable_total",
                       .help = "Episodes that the teacher could not score"}};
  Counter sequences{*this,
                    {.key = "teacher_sequences",
                     .metric = "tidemill_teacher_sequences_total",
                     .help = "Sequences that the teacher scored"}};
  Counter tokens{*this,
                 {.key = "taught_tokens",
                  .metric = "tidemill_taught_tokens_total",
                  .help = "Tokens with a log-probability from the teacher"}};
  Counter unknown{*this,
                  {.key = "teacher_unknown_tokens",
                   .metric = "tidemill_teacher_unknown_tokens_total",
                   .help = "Tokens that the teacher could not score; masked"}};
  Counter failed{*this,
                 {.key = "teacher_failed",
                  .metric = "tidemill_teacher_failed_total",
                  .help = "Sequences without an answer from the teacher: away, too slow, refused"}};
  Counter retries{*this,
                  {.key = "teacher_retries",
                   .metric = "tidemill_retries_total",
                   .help = "Work retried after a system failure",
                   .labels = {{"what", "teacher"}}}};
  Counter waiting{*this,
                  {.key = "teacher_waiting",
                   .metric = "tidemill_teacher_waiting",
                   .help = "Episodes that wait for the teacher",
                   .kind = Counter::Kind::kLevel}};
};

class TeacherLoop final : public Loop {
 public:
  // Bus and port are borrowed.
  TeacherLoop(Bus& bus, TeacherPort& port, TeacherOptions options);

  std::string_view name() const override { return "teacher"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  void Drain() override;
  bool Drained() const override { return outbox_.waiting() == 0; }

  const TeacherCounters& counters() const { return counters_; }

 private:
  struct Asking {
    v1::TeacherRequest request;
    v1::TeacherAnswer answer;
    int open = 0;  // sequences without their scores
  };
  // One sequence that is to be scored.
  struct Call {
    uint64_t asking;
    int sequence;
    uint32_t tries = 0;
  };

  void TakeRequests(Time now);
  void StartCalls();
  void TakeDone(Time now);
  void OnDone(const Call& call, TeacherDone done, Time now);
  void AddScores(Asking& asking, const v1::TaughtSequence& sequence, const TokenLogprobsOf& scores);
  void Send(uint64_t key);

  Bus& bus_;
  TeacherPort& port_;
  TeacherOptions options_;
  Outbox outbox_;
  LeaseKeeper leases_;
  std::unordered_map<uint64_t, Asking> askings_;
  std::deque<Call> waiting_;
  std::unordered_map<uint64_t, Call> running_;  // by the port's tag
  LaterQueue<Call> later_;
  uint64_t next_key_ = 1, next_tag_ = 1;
  bool draining_ = false;
  TeacherCounters counters_;
};

}  // namespace tidemill
