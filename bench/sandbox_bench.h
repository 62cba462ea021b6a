// The cost of a box, against a plain spawn of the same command and against bubblewrap alone, one at
// a time and many at once, and what a thousand requests leave behind.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct SandboxBenchOptions {
  size_t samples = 200;    // of each latency
  size_t requests = 1000;  // for the leak check
  double seconds = 2;      // for each rate
  std::vector<size_t> at_once = {1, 8, 32};
  size_t pool = 8;  // boxes kept ready
};

// Things of this process that should be as many afterwards as before.
struct Leftovers {
  long processes = 0;
  long mounts = 0;
  long cgroups = 0;
  long files = 0;  // open descriptors
};

struct SandboxBenchReport {
  std::string limits;  // "cgroup v1 (memory, pids, cpuacct)"
  // Median milliseconds for /bin/true.
  double plain_ms = 0;       // posix_spawn and wait
  double bubblewrap_ms = 0;  // bwrap with the same name spaces and mounts, nothing of ours
  double cold_ms = 0;        // a box opened for the request
  double warm_ms = 0;        // a box from a full pool
  double kept_ms = 0;        // the next command in a box that is open
  double over_plain_ms = 0;  // warm_ms - plain_ms; the bound is 1.5
  struct Rate {
    size_t at_once = 0;
    double plain_per_s = 0;
    double boxes_per_s = 0;     // a new box for each request
    double kept_per_s = 0;      // one box for each of those at once
    double gradings_per_s = 0;  // tcc -run and eight answers, a new box for each
  };
  std::vector<Rate> rates;
  size_t requests = 0;
  Leftovers left;  // after `requests`, less before

  bool Clean() const {
    return left.processes == 0 && left.mounts == 0 && left.cgroups == 0 && left.files == 0;
  }
  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

// kUnavailable: no box can run here, and why.
Result<SandboxBenchReport> RunSandboxBench(const SandboxBenchOptions& options);

}  // namespace tidemill
