// A program of the user's that stays: it is started once and answers many questions, one JSON
// object a line in and one a line out, in any order, matched by their "id".
//
//   Ask -> queue -> standard input ... standard output -> line -> `done`
//
// It is started again when it ends or says nothing for the time limit. Questions that were open
// then are asked once more, one at a time, so that one that ends it takes no other down with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/fd.h"
#include "core/mutex.h"
#include "reward/command.h"
#include "reward/command_process.h"

namespace tidemill {

struct StayingAnswer {
  uint64_t tag = 0;
  Status status;     // not ok: no answer; says why
  std::string line;  // a JSON object, not yet judged
};

class StayingCommand {
 public:
  struct Options {
    std::vector<std::string> command;
    CommandLimits limits;  // time of a question; bytes of an answer
    size_t open_max = 2;   // questions it has at once
  };
  // `done` is called once for each question, on a thread of this object.
  StayingCommand(Options options, std::function<void(StayingAnswer)> done);
  // Closes its standard input, gives it a moment to end, then kills it. Open questions are
  // forgotten.
  ~StayingCommand();

  // `question` is one JSON object. Thread-safe.
  void Ask(std::string question, uint64_t tag);

 private:
  using Moment = std::chrono::steady_clock::time_point;
  struct Question {
    std::string text;
    uint64_t tag = 0;
    bool alone = false;  // was open when the program ended before
  };
  struct Open {
    Question question;
    Moment deadline;
  };

  void Run();
  // False: closing.
  bool TakeNew();
  void SendMore();
  void Exchange();
  void WriteSome();
  void ReadAnswers();
  void OnLine(const std::string& line);
  void GiveUpLate();
  // The program is of no use any more: open questions go back, or fail if they were asked alone.
  void Over(const std::string& why, bool by_itself);
  // It has ended within `limit`; it is still to be reaped.
  bool Ended(std::chrono::milliseconds limit) const;
  void Fail(const Question& question, Status status);
  void Leave();

  const Options options_;
  const std::function<void(StayingAnswer)> done_;
  Fd wake_;  // an eventfd: something was asked, or this closes
  Mutex mutex_;
  std::deque<Question> asked_
      TM_GUARDED_BY(mutex_);  // bounded by what those who ask have in progress
  bool closing_ TM_GUARDED_BY(mutex_) = false;

  // The thread's.
  std::deque<Question> waiting_;
  std::map<uint64_t, Open> open_;  // by the id that was sent
  std::optional<CommandProcess> process_;
  std::string to_write_, line_, errors_;
  uint64_t next_id_ = 1;
  Moment heard_;        // when it last said something, or got a question while idle
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tidemill
