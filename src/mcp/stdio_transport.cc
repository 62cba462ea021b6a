#include "mcp/stdio_transport.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tidemill {
namespace {

using McpSteady = std::chrono::steady_clock;

Time UntilOf(Duration timeout) {
  const Time now = McpSteady::now();
  return timeout > kNever - now ? kNever : now + timeout;
}

// A program that ended makes a write raise SIGPIPE, which would end us. Pipes have no MSG_NOSIGNAL.
ssize_t WriteWithoutSignal(int fd, const char* bytes, size_t size) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t wrote = write(fd, bytes, size);
  const int error = errno;
  if (wrote < 0 && error == EPIPE && sigismember(&before, SIGPIPE) == 0) {
    const timespec now = {0, 0};
    (void)sigtimedwait(&pipe, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return wrote;
}

}  // namespace

Result<std::unique_ptr<StdioTransport>> StdioTransport::Make(Fd to, Fd from,
                                                             const RpcLimits& limits) {
  Fd interrupted(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!interrupted) return Unavailable(std::string("eventfd: ") + strerror(errno));
  for (const int fd : {to.get(), from.get()}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return std::unique_ptr<StdioTransport>(
      new StdioTransport(std::move(to), std::move(from), std::move(interrupted), limits));
}

StdioTransport::StdioTransport(Fd to, Fd from, Fd interrupted, const RpcLimits& limits)
    : to_(std::move(to)),
      from_(std::move(from)),
      interrupted_(std::move(interrupted)),
      limits_(limits) {}

Status StdioTransport::WaitFor(int fd, short events, Time until) const {
  for (;;) {
    pollfd waits[2] = {{fd, events, 0}, {interrupted_.get(), POLLIN, 0}};
    const Duration left =
        until == kNever ? Duration(std::chrono::hours(1)) : until - McpSteady::now();
    const Duration whole = std::max(left, Duration(0));
    const timespec time = {whole.count() / 1'000'000'000, whole.count() % 1'000'000'000};
    const int ready = ppoll(waits, 2, &time, nullptr);
    if (ready < 0 && errno != EINTR) return Unavailable(std::string("poll: ") + strerror(errno));
    if (ready > 0 && waits[1].revents != 0) return Unavailable("stopped");
    if (ready > 0 && waits[0].revents != 0) return Ok();
    if (McpSteady::now() >= until) return Timeout("the server did not answer in time");
  }
}

Status StdioTransport::Send(const RpcMessage& message, Duration timeout) {
  const Time until = UntilOf(timeout);
  const std::string line = DumpRpc(message) + "\n";
  for (size_t at = 0; at < line.size();) {
    TM_RETURN_IF_ERROR(WaitFor(to_.get(), POLLOUT, until));
    const ssize_t wrote = WriteWithoutSignal(to_.get(), line.data() + at, line.size() - at);
    if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (wrote <= 0) return Unavailable("the server reads no more: it has ended");
    at += static_cast<size_t>(wrote);
  }
  return Ok();
}

Result<RpcMessage> StdioTransport::Receive(Duration timeout) {
  const Time until = UntilOf(timeout);
  for (;;) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      RpcParsed parsed = ParseRpc(line, limits_);
      if (!parsed.status.ok()) return parsed.status.WithContext("the server's line");
      return std::move(parsed.message);
    }
    if (unread_.size() > limits_.bytes) {
      return Unavailable("the server wrote a line of more than " + std::to_string(limits_.bytes) +
                         " bytes");
    }
    TM_RETURN_IF_ERROR(WaitFor(from_.get(), POLLIN, until));
    char bytes[64 * 1024];
    const ssize_t got = read(from_.get(), bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return Unavailable("the server has ended");
    unread_.append(bytes, static_cast<size_t>(got));
  }
}

void StdioTransport::Interrupt() {
  const uint64_t one = 1;
  (void)!write(interrupted_.get(), &one, sizeof one);
}

}  // namespace tidemill
