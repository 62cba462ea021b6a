#include "reward/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/fd.h"
#include "reward/command_process.h"

namespace tidemill {
namespace {

constexpr size_t kErrorBytes = 2048;

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
  PipeSignalBlocked blocked;
  TM_ASSIGN_OR_RETURN(CommandProcess process, CommandProcess::Start(command));
  Conversation conversation(input, limits);
  Status status = conversation.Hold(process.in, process.out, process.err);
  if (status.ok()) status = conversation.Await(process.pid());
  const int ended = process.End();
  if (!status.ok()) return status;
  if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) return std::move(conversation.output);
  return Unavailable(HowCommandEnded(ended) +
                     (conversation.errors.empty() ? "" : ": " + conversation.errors));
}

}  // namespace tidemill
