// Servers of others that Tidemill starts itself: on loopback, watched, restarted, stopped.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "http/http_peer.h"

namespace tidemill {

struct ServerCommand {
  std::vector<std::string> words{};  // "{port}", "{server}": its port, its number
  std::string log_folder{};          // what a server prints: NAME-0.log, ..
  std::string name = "server";
};

// Belongs to one thread once it is made.
class ServerProcesses {
 public:
  // Starts `count` servers. kUnavailable: a process could not be started.
  static Result<ServerProcesses> Start(ServerCommand command, size_t count);
  // Asks them to end, waits, and kills what is left.
  ~ServerProcesses();
  ServerProcesses(ServerProcesses&& other) noexcept;
  ServerProcesses(const ServerProcesses&) = delete;

  // One more.
  Status Add();

  const std::vector<HttpUrl>& urls() const { return urls_; }
  // Starts again those that ended, each after a pause that grows. Returns the indices of those that
  // are other processes now.
  std::vector<size_t> Watch(Time now);
  // Kills the process; Watch starts another.
  void Kill(size_t server);

 private:
  struct Process {
    pid_t pid = 0;  // 0: none
    Time start_at = Time::min();
    Duration pause{};  // before the next start
  };
  explicit ServerProcesses(ServerCommand command) : command_(std::move(command)) {}
  Status StartOne(size_t server);

  ServerCommand command_;
  std::vector<HttpUrl> urls_;
  std::vector<Process> processes_;
};

}  // namespace tidemill
