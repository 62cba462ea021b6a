// The ScorerPort that runs programs: each question starts its program anew, so many at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "reward/command.h"
#include "reward/scorer_port.h"

namespace tidemill {

struct CommandPortOptions {
  std::map<std::string, std::vector<std::string>> commands;  // by name
  CommandLimits limits;
  size_t slots = 2;  // programs running at once
};

class CommandPort final : public ScorerPort {
 public:
  explicit CommandPort(CommandPortOptions options);
  // Waits for the programs that run (their time is bounded); what waits is forgotten.
  ~CommandPort() override;

  bool Knows(const std::string& command) const override {
    return options_.commands.count(command) != 0;
  }
  void Submit(const std::string& command, std::string question, uint64_t tag) override;
  Mailbox<ScorerDone>& events() override { return events_; }

 private:
  struct Job {
    std::string command, question;
    uint64_t tag;
  };
  void Work();
  ScorerDone Answer(const Job& job) const;

  const CommandPortOptions options_;
  Mailbox<ScorerDone> events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;  // guarded by mutex_; bounded by what the reward loop has in progress
  bool closing_ = false;   // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace tidemill
