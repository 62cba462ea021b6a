// The state that all boxes of a process share: how to start one, the system call filter, where
// cgroups are made, and the thread that waits for closed boxes to be gone.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/fd.h"
#include "core/mutex.h"
#include "core/status.h"
#include "tools/box/box.h"
#include "tools/box/cgroup.h"

namespace tidemill {

// A file or folder of the machine that the boxes see read-only.
struct BoxMount {
  std::string from, to;
};

struct BoxHostOptions {
  std::string bubblewrap{};  // its path; empty: looked up in PATH
  // Whose /usr, /bin, /lib.. (and /etc) the boxes see, read-only; empty: the host's own, with of
  // /etc only what programs need to start.
  std::string root{};
  // "NAME=value", besides PATH, HOME, USER, LANG and TMPDIR.
  std::vector<std::string> environment{};
  std::vector<BoxMount> mounts{};
  // Processes may use the box's own loopback, and have a home of their own and a name: for agents.
  bool loopback = false;
  bool cgroups = true;  // false: do as if there were none
  // Where the executor is root and the machine has no other users for boxes (a container without
  // them), boxes run as the executor's own; without this such a machine has no boxes.
  bool own_user = false;
  size_t cores = 0;        // a box may use; 0: those there are
  size_t boxes_max = 512;  // open at once, those being closed included
};

// Thread-safe. Must outlive its boxes; the destructor waits until every process, mount and cgroup
// is gone.
class BoxHost {
 public:
  // Opens and closes one box, so that a machine that cannot is found out here. kUnavailable: what
  // is missing, in words.
  static Result<std::unique_ptr<BoxHost>> Create(BoxHostOptions options);
  ~BoxHost();

  // A new box, ready for Configure. kFull: boxes_max are open. kUnavailable: it could not start,
  // and why.
  Result<std::unique_ptr<Box>> Open();

  // Empty: limits are exact. Otherwise why they are not.
  const std::string& degraded() const { return degraded_; }
  // For people: "cgroup v1 (memory, pids, cpuacct)".
  std::string Describe() const;
  // Where the boxes' cgroups are; empty where there are none.
  std::vector<std::string> CgroupFolders() const {
    return cgroups_ != nullptr ? cgroups_->parents() : std::vector<std::string>();
  }
  const std::vector<std::string>& environment() const { return environment_; }
  const std::string& root() const { return options_.root; }
  size_t cores() const { return options_.cores; }
  const std::string& filter() const { return filter_; }

  // The same name spaces and mounts with `command` in the place of the init: what bubblewrap itself
  // costs.
  std::vector<std::string> BubblewrapCommand(const std::vector<std::string>& command) const;

  // Boxes that exist: open, or closed and not yet gone.
  size_t alive() const { return alive_.load(); }
  // Returns when no closed box is still on its way out.
  void WaitForClosed();

 private:
  friend class Box;
  struct Closing {
    pid_t outer_pid;
    std::unique_ptr<Cgroup> cgroup;
  };

  explicit BoxHost(BoxHostOptions options);
  Status Prepare();
  Status PrepareImage();
  void PrepareArguments();
  void AddMachine();
  void AddRoot();
  Status ProbeBox();
  Status Probe();
  Result<std::unique_ptr<Box>> Start();
  Status Spawn(Box& box, int socket, int complaints);
  void Close(Closing closing);
  void Reap();

  BoxHostOptions options_;
  std::string degraded_;
  std::string filter_;
  std::vector<std::string> environment_;
  std::vector<std::string> arguments_;  // of bubblewrap, its name first
  std::unique_ptr<CgroupRoot> cgroups_;
  Fd image_;                  // the init's program
  bool change_user_ = false;  // root here: every box gets a user of its own
  std::atomic<size_t> alive_{0};

  Mutex mutex_;
  CondVar changed_;
  std::deque<Closing> closing_ TM_GUARDED_BY(mutex_);
  bool reaping_ TM_GUARDED_BY(mutex_) = false;  // one is in the reaper's hands
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::thread reaper_;
};

}  // namespace tidemill
