// Processes this one starts of its own program: workers, ranks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

// The program that runs, to be started again.
std::string ThisProgram();

// Starts words[0]. The child reads nothing and only logs: what it prints goes to our standard
// error. It inherits no other descriptor. It is a process group of its own, so that Ctrl-C reaches
// us alone and we tell it in order.
Result<pid_t> StartChild(const std::vector<std::string>& words);

// The same for a program of others that is found on the path: what it prints is added to the file
// `log`, and it is asked to end when this thread's process dies.
Result<pid_t> StartLoggedChild(const std::vector<std::string>& words, const std::string& log);

// Of waitpid's status: "ended with status 1", "was killed by signal 9".
std::string HowItEnded(int wait_status);

}  // namespace tidemill
