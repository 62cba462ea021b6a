// A running program of the user's with pipes to its standard streams, in a process group of its
// own.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "core/fd.h"
#include "core/status.h"

namespace tidemill {

// Ends with this object: whatever it started goes with it.
class CommandProcess {
 public:
  // kInvalid: there is no such program. Our ends of the pipes never block.
  static Result<CommandProcess> Start(const std::vector<std::string>& command);

  CommandProcess(CommandProcess&& other) noexcept;
  CommandProcess& operator=(CommandProcess&&) = delete;
  ~CommandProcess() { End(); }

  pid_t pid() const { return pid_; }
  // Kills the group and reaps the program; waitpid's status. A second call does nothing.
  int End();

  Fd in, out, err;  // its standard input, output and error

 private:
  CommandProcess() = default;
  pid_t pid_ = 0;
};

// Of waitpid's status: "exit status 1", "signal 9".
std::string HowCommandEnded(int wait_status);

// While it lives, a write of this thread to a program that reads no further fails instead of ending
// our process.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked();
  ~PipeSignalBlocked();
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tidemill
