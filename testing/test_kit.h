// Shared by the tests of every folder: a directory that goes away, ways to wait for what must come
// to be, a file's text, a free port.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "core/clock.h"
#include "core/loop.h"
#include "core/mutex.h"
#include "core/status.h"

namespace tidemill {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tidemill-test-XXXXXX").string();
    TM_CHECK(mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// For what takes no time worth naming on a machine that is not busy.
inline constexpr Duration kPatience = std::chrono::seconds(30);

// Looks again, at first soon and then less often, until `holds` does. False: it did not for as long
// as patience lasted.
inline bool Eventually(const std::function<bool()>& holds, Duration patience = kPatience) {
  const Time until = std::chrono::steady_clock::now() + patience;
  for (Duration pause = milliseconds(1); !holds();
       pause = std::min<Duration>(2 * pause, milliseconds(50))) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

// For a loop that a test steps by hand.
class QuietWaker final : public Waker {
 public:
  void Wake() override {}
};

// Lets a test wait for what would wake a loop.
class Bell final : public Waker {
 public:
  void Wake() override {
    {
      MutexLock lock(mutex_);
      ++count_;
    }
    rang_.NotifyAll();
  }
  uint64_t count() const {
    MutexLock lock(mutex_);
    return count_;
  }
  // Waits for the count to pass `seen`. False: it did not while patience lasted.
  bool WaitPast(uint64_t seen, Duration patience = kPatience) {
    MutexLock lock(mutex_);
    return rang_.WaitFor(lock, patience, [&]() TM_REQUIRES(mutex_) { return count_ > seen; });
  }
  // Waits until it has rung since the last Wait.
  bool Wait(Duration patience = kPatience) {
    const bool rang = WaitPast(waited_for_, patience);
    waited_for_ = count();
    return rang;
  }

 private:
  mutable Mutex mutex_;
  CondVar rang_;
  uint64_t count_ TM_GUARDED_BY(mutex_) = 0;
  uint64_t waited_for_ = 0;  // of the thread that waits
};

// The whole of a file; empty where there is none.
inline std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Of this machine alone, and nobody's a moment ago; another process may take it meanwhile.
inline int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  int port = 0;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  close(fd);
  return port;
}

}  // namespace tidemill
