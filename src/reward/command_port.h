// The ScorerPort that runs programs: each question starts its program anew, so many at a time, or
// the program stays and is asked line by line.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/work_queue.h"
#include "reward/command.h"
#include "reward/scorer_port.h"
#include "reward/staying_command.h"

namespace tidemill {

struct CommandPortOptions {
  std::map<std::string, std::vector<std::string>> commands;  // by name
  CommandLimits limits;
  size_t slots = 2;             // programs running at once, or questions a program has at once
  std::set<std::string> stays;  // commands that are started once (reward/staying_command.h)
};

class CommandPort final : public ScorerPort {
 public:
  explicit CommandPort(CommandPortOptions options);
  // Waits for the programs that run (their time is bounded); what waits is forgotten.
  ~CommandPort() override = default;

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
  ScorerDone Answer(const Job& job) const;
  // Logs a failure: the first at once, later ones counted.
  void Tell(const std::string& command, ScorerDone done);

  const CommandPortOptions options_;
  Mailbox<ScorerDone> events_;
  std::map<std::string, std::unique_ptr<StayingCommand>> staying_;  // by name
  WorkQueue<Job> queue_;  // last: its threads use all of the above
};

}  // namespace tidemill
