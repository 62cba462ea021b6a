#include "scale/local_workers.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "bus/roster.h"
#include "core/child_process.h"
#include "core/log.h"
#include "core/mutex.h"

namespace tidemill {
namespace {

constexpr size_t kEventsMax = 4096;

Status EndOf(int wait_status) {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return Ok();
  return Internal("it " + HowItEnded(wait_status));
}

class LocalWorkers final : public WorkerBackend {
 public:
  explicit LocalWorkers(std::vector<std::string> command)
      : command_(std::move(command)), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    TM_CHECK(wake_fd_ >= 0, "eventfd");
    thread_ = std::thread([this] { Run(); });
  }
  ~LocalWorkers() override {
    Push({.stop = true});
    thread_.join();
    close(wake_fd_);
  }

  void Start(uint64_t id) override { Push({.start = id}); }
  void Drain(uint64_t id) override { Push({.drain = id}); }
  Mailbox<BackendEvent>& events() override { return events_; }

 private:
  struct Order {
    uint64_t start = 0, drain = 0;
    bool stop = false;
  };
  struct Process {
    pid_t pid = -1;
    int pid_fd = -1;
  };

  void Push(Order order) {
    {
      MutexLock lock(mutex_);
      orders_.push_back(order);
    }
    const uint64_t one = 1;
    (void)!write(wake_fd_, &one, sizeof one);
  }

  void Run() {
    while (TakeOrders()) {
      std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
      for (const auto& [id, process] : processes_) fds.push_back({process.pid_fd, POLLIN, 0});
      if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) {
        LogError("poll", {{"why", std::strerror(errno)}});
      }
      Reap();
    }
    for (auto& [id, process] : processes_) {
      kill(process.pid, SIGTERM);
      close(process.pid_fd);
    }
  }

  // False: stop.
  bool TakeOrders() {
    uint64_t ignored;
    (void)!read(wake_fd_, &ignored, sizeof ignored);
    std::deque<Order> orders;
    {
      MutexLock lock(mutex_);
      orders.swap(orders_);
    }
    for (const Order& order : orders) {
      if (order.stop) return false;
      if (order.start != 0) Spawn(order.start);
      if (const auto found = processes_.find(order.drain); found != processes_.end()) {
        kill(found->second.pid, SIGTERM);
      }
    }
    return true;
  }

  void Spawn(uint64_t id) {
    Result<pid_t> started = StartChild(command_);
    if (!started.ok()) return Ended(id, started.status());
    Process process;
    process.pid = *started;
    process.pid_fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
    TM_CHECK(process.pid_fd >= 0, "pidfd_open");
    processes_[id] = process;
    BackendEvent event;
    event.id = id;
    event.name = WorkerName("tools", process.pid);
    events_.Post(std::move(event));
  }

  void Reap() {
    for (auto it = processes_.begin(); it != processes_.end();) {
      int status = 0;
      if (waitpid(it->second.pid, &status, WNOHANG) != it->second.pid) {
        ++it;
        continue;
      }
      close(it->second.pid_fd);
      Ended(it->first, EndOf(status));
      it = processes_.erase(it);
    }
  }

  void Ended(uint64_t id, Status status) {
    BackendEvent event;
    event.id = id;
    event.ended = true;
    event.status = std::move(status);
    events_.Post(std::move(event));
  }

  const std::vector<std::string> command_;
  const int wake_fd_;
  Mailbox<BackendEvent> events_{kEventsMax};
  Mutex mutex_;
  std::deque<Order> orders_ TM_GUARDED_BY(mutex_);
  std::map<uint64_t, Process> processes_;  // of the thread alone
  std::thread thread_;
};

}  // namespace

std::unique_ptr<WorkerBackend> StartLocalWorkers(std::vector<std::string> command) {
  return std::make_unique<LocalWorkers>(std::move(command));
}

}  // namespace tidemill
