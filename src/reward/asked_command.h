// A program of the user's that stays, for threads that wait for its answers: those of ports.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "reward/staying_command.h"

namespace tidemill {

// Thread-safe. Nobody may be waiting when it goes.
class AskedCommand {
 public:
  // A question that fails is asked so many times more.
  AskedCommand(StayingCommand::Options options, uint32_t retries);

  // The answers in the order of the questions, JSON objects. kUnavailable, kTimeout: why the first
  // of those that failed did, with what the program reported.
  Result<std::vector<std::string>> Ask(const std::vector<std::string>& questions);

 private:
  // Of one call of Ask, by the question's tag.
  using Answers = std::map<uint64_t, StayingAnswer>;

  void Take(StayingAnswer answer);
  StayingAnswer Await(uint64_t tag);
  uint64_t Send(const std::string& question);

  const uint32_t retries_;
  Mutex mutex_;
  CondVar arrived_;
  Answers answers_ TM_GUARDED_BY(mutex_);
  uint64_t next_tag_ TM_GUARDED_BY(mutex_) = 1;
  StayingCommand command_;  // last: its thread uses all of the above
};

}  // namespace tidemill
