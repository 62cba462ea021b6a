#include "reward/command_process.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

extern char** environ;

namespace tidemill {
namespace {

struct Pipe {
  Fd read, write;
  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read = Fd(ends[0]), write = Fd(ends[1]);
    return true;
  }
};

sigset_t PipeSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

Result<pid_t> Spawn(const std::vector<std::string>& command, const Pipe& in, const Pipe& out,
                    const Pipe& err) {
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Invalid("\"" + command[0] + "\" could not be started: " + strerror(error));
  return pid;
}

}  // namespace

PipeSignalBlocked::PipeSignalBlocked() {
  const sigset_t set = PipeSignal();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

PipeSignalBlocked::~PipeSignalBlocked() {
  const sigset_t set = PipeSignal();
  const timespec none = {};
  while (sigtimedwait(&set, nullptr, &none) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Result<CommandProcess> CommandProcess::Start(const std::vector<std::string>& command) {
  if (command.empty()) return Invalid("the command is empty");
  Pipe in, out, err;
  if (!in.Open() || !out.Open() || !err.Open())
    return Unavailable(std::string("no pipe: ") + strerror(errno));
  CommandProcess process;
  TM_ASSIGN_OR_RETURN(process.pid_, Spawn(command, in, out, err));
  process.in = std::move(in.write);
  process.out = std::move(out.read);
  process.err = std::move(err.read);
  for (const Fd* fd : {&process.in, &process.out, &process.err})
    fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  return process;
}

CommandProcess::CommandProcess(CommandProcess&& other) noexcept
    : in(std::move(other.in)),
      out(std::move(other.out)),
      err(std::move(other.err)),
      pid_(std::exchange(other.pid_, 0)) {}

int CommandProcess::End() {
  if (pid_ <= 0) return 0;
  // Before it is reaped, while the group's number is its own.
  kill(-pid_, SIGKILL);
  int ended = 0;
  while (waitpid(pid_, &ended, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return ended;
}

std::string HowCommandEnded(int status) {
  return WIFEXITED(status) ? "exit status " + std::to_string(WEXITSTATUS(status))
                           : "signal " + std::to_string(WTERMSIG(status));
}

}  // namespace tidemill
