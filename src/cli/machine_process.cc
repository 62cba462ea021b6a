#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "cli/machine.h"

extern char** environ;

namespace tidemill {
namespace {

// Starts the program with its output going to `out`. 0: it could not be started.
pid_t Spawn(const std::vector<std::string>& arguments, int out) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, out, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : 0;
}

// Reads until the other end closes. False: the deadline passed first.
bool ReadAll(int in, std::chrono::steady_clock::time_point deadline, size_t output_max,
             std::string& output) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{in, POLLIN, 0};
    const int polled = poll(&ready, 1, static_cast<int>(left.count()));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return false;
    char buffer[4096];
    const ssize_t n = read(in, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    const size_t room = output_max - output.size();
    output.append(buffer, std::min(static_cast<size_t>(n), room));
  }
}

}  // namespace

ProcessOutput RunProcess(const std::vector<std::string>& arguments, std::chrono::milliseconds limit,
                         size_t output_max) {
  ProcessOutput result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return result;
  const pid_t pid = Spawn(arguments, ends[1]);
  close(ends[1]);
  if (pid != 0) {
    result.started = true;
    if (!ReadAll(ends[0], std::chrono::steady_clock::now() + limit, output_max, result.output)) {
      result.timed_out = true;
      kill(pid, SIGKILL);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  close(ends[0]);
  return result;
}

}  // namespace tidemill
