// Processes this one starts of its own program: workers, ranks.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "core/status.h"

namespace tidemill {

// The program that runs, to be started again.
std::string ThisProgram();

struct ChildOptions {
  // Beside the environment we have; these come first.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string log = {};      // a file that what it prints is added to; empty: our standard error
  bool outlives_us = false;  // it is a session of its own, and ends when it likes
};

// Starts words[0], which is looked for on the path where it has no slash. The child reads nothing
// and only logs: what it prints goes to the log. It inherits no other descriptor. It is a process
// group of its own, so that Ctrl-C reaches us alone and we tell it in order.
Result<pid_t> StartChild(const std::vector<std::string>& words, const ChildOptions& options = {});

// The same for a program of others that is found on the path: what it prints is added to the file
// `log`, and it is asked to end when this thread's process dies.
Result<pid_t> StartLoggedChild(const std::vector<std::string>& words, const std::string& log);

// Of waitpid's status: "ended with status 1", "was killed by signal 9".
std::string HowItEnded(int wait_status);

}  // namespace tidemill
