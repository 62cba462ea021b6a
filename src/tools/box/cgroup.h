// The kernel's limits on everything in a box together: memory, processes, CPU time.
//
//   CgroupRoot::Find (once) -> Make (one a box) -> SetLimits, Read -> Remove
//
// Version 1 (memory, pids and cpuacct hierarchies, as on hybrid hosts) and version 2 are both
// served. Where neither may be written there is no CgroupRoot, and the boxes do with rlimits and
// their pid namespace.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/fd.h"
#include "core/status.h"

namespace tidemill {

struct CgroupLimits {
  uint64_t memory_bytes = 0;
  uint64_t processes = 0;
};

// Since the cgroup was made.
struct CgroupReading {
  uint64_t oom_kills = 0;          // processes the kernel ended for memory
  uint64_t refused_processes = 0;  // forks it refused
  uint64_t cpu_ns = 0;             // 0 where it is not counted
  uint64_t peak_memory_bytes = 0;  // since the last ResetPeak
};

// One box's cgroup, in every hierarchy that is needed. Not thread-safe.
class Cgroup {
 public:
  // Takes directories that exist: of memory, pids and cpuacct in version 1, the one in version 2.
  static Result<std::unique_ptr<Cgroup>> Adopt(std::vector<std::string> directories, bool version2);

  // The files a process writes itself into.
  const std::vector<std::string>& procs_files() const { return procs_files_; }
  bool counts_cpu() const { return static_cast<bool>(cpu_); }

  Status SetLimits(const CgroupLimits& limits);
  CgroupReading Read() const;
  // From here on the peak is that of what follows. Cheap; where the kernel cannot, the peak stays.
  void ResetPeak();

  // The directories are gone. kFull: a process is still in it; try again.
  Status Remove();

 private:
  bool version2_ = false;
  std::vector<std::string> directories_;
  std::vector<std::string> procs_files_;
  Fd memory_limit_, swap_limit_, oom_, peak_, processes_limit_, refused_, cpu_;
};

// Where boxes' cgroups are made. Thread-safe after Find.
class CgroupRoot {
 public:
  // From the texts of /proc/self/mountinfo and /proc/self/cgroup. Nothing: `why` says what is
  // missing or may not be written.
  static std::unique_ptr<CgroupRoot> Find(std::string_view mountinfo, std::string_view self_cgroup,
                                          std::string* why);

  // `name` must be new.
  Result<std::unique_ptr<Cgroup>> Make(const std::string& name) const;

  // Removes what executors that are no longer alive left behind: names of the form
  // tidemill-PID-NUMBER.
  void Sweep() const;

  // "cgroup v1 (memory, pids, cpuacct)" or "cgroup v2".
  std::string Describe() const;
  // Folders in which cgroups are made, one for each hierarchy.
  const std::vector<std::string>& parents() const { return parents_; }

 private:
  bool version2_ = false;
  std::vector<std::string> parents_;  // v1: memory, pids and, if there is one, cpuacct; v2: the one
};

}  // namespace tidemill
