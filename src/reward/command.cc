#include "reward/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/fd.h"

extern char** environ;

namespace tidemill {
namespace {

constexpr size_t kErrorBytes = 2048;

struct Pipe {
  Fd read, write;
  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read = Fd(ends[0]), write = Fd(ends[1]);
    return true;
  }
};

// A write to a program that reads no further must not end ours.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~PipeSignalBlocked() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    const timespec none = {};
    while (sigtimedwait(&set, nullptr, &none) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
};

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

// Reads what is there. False: the other end closed.
bool ReadSome(Fd& fd, std::string& text, size_t most) {
  char buffer[16384];
  const ssize_t n = read(fd.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) {
    fd.Reset();
    return false;
  }
  text.append(buffer, std::min(static_cast<size_t>(n), most - std::min(most, text.size())));
  return true;
}

class Conversation {
 public:
  Conversation(const std::string& input, const CommandLimits& limits)
      : input_(input), limits_(limits), deadline_(std::chrono::steady_clock::now() + limits.time) {}

  // Writes and reads until the program closed its output. Not ok: it must be ended.
  Status Hold(Fd& in, Fd& out, Fd& err) {
    for (const Fd* fd : {&in, &out, &err}) fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    while (out.get() >= 0 || err.get() >= 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          deadline_ - std::chrono::steady_clock::now());
      if (left.count() <= 0) {
        return Timeout("no answer within " + std::to_string(limits_.time.count()) + " ms");
      }
      std::array<pollfd, 3> ready = {{{in.get(), POLLOUT, 0},  // -1: left out
                                      {out.get(), POLLIN, 0},
                                      {err.get(), POLLIN, 0}}};
      if (poll(ready.data(), ready.size(), static_cast<int>(left.count())) < 0 && errno != EINTR)
        return Internal(std::string("poll: ") + strerror(errno));
      if (ready[0].revents != 0) WriteSome(in);
      if (ready[1].revents != 0) ReadSome(out, output, limits_.output_bytes + 1);
      if (ready[2].revents != 0) ReadSome(err, errors, kErrorBytes);
      if (output.size() > limits_.output_bytes) {
        return Full("it wrote more than " + std::to_string(limits_.output_bytes) + " bytes");
      }
    }
    return Ok();
  }
  // Waits until the program has ended, or its time is over. It is still to be reaped.
  Status Await(pid_t pid) {
    siginfo_t info = {};
    while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0) {
      if (std::chrono::steady_clock::now() > deadline_)
        return Timeout("it did not exit within " + std::to_string(limits_.time.count()) + " ms");
      poll(nullptr, 0, 1);
    }
    return Ok();
  }

  std::string output, errors;

 private:
  void WriteSome(Fd& in) {
    const ssize_t n = write(in.get(), input_.data() + written_, input_.size() - written_);
    if (n > 0) written_ += static_cast<size_t>(n);
    const bool gone = n < 0 && errno != EAGAIN && errno != EINTR;
    if (gone || written_ == input_.size()) in.Reset();
  }

  const std::string& input_;
  const CommandLimits& limits_;
  std::chrono::steady_clock::time_point deadline_;
  size_t written_ = 0;
};

}  // namespace

Result<std::string> RunCommand(const std::vector<std::string>& command, const std::string& input,
                               const CommandLimits& limits) {
  if (command.empty()) return Invalid("the command is empty");
  Pipe in, out, err;
  if (!in.Open() || !out.Open() || !err.Open())
    return Unavailable(std::string("no pipe: ") + strerror(errno));
  PipeSignalBlocked blocked;
  TM_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, in, out, err));
  in.read.Reset(), out.write.Reset(), err.write.Reset();
  Conversation conversation(input, limits);
  Status status = conversation.Hold(in.write, out.read, err.read);
  if (status.ok()) status = conversation.Await(pid);
  // Whatever it started goes with it; before it is reaped, while the group's number is its own.
  kill(-pid, SIGKILL);
  int ended = 0;
  while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
  }
  if (!status.ok()) return status;
  if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) return std::move(conversation.output);
  const std::string how = WIFEXITED(ended) ? "exit status " + std::to_string(WEXITSTATUS(ended))
                                           : "signal " + std::to_string(WTERMSIG(ended));
  return Unavailable(how + (conversation.errors.empty() ? "" : ": " + conversation.errors));
}

}  // namespace tidemill
