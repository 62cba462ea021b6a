// The one place where the number of threads is decided. Loops have a thread each and hardly use it;
// what competes for the cores are the torch ports (engine, trainer) and the boxes the tools run in.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// The number in the config; 0 means: decide.
struct ThreadSettings {
  int cores = 0;    // cores to use
  int engine = 0;   // torch threads of the engine's port
  int trainer = 0;  // torch threads of the trainer's port
  int boxes = 0;    // tool calls running at once
};

struct ThreadPlan {
  int cores = 1;
  int engine = 1;
  int trainer = 1;
  int boxes = 1;
  std::string ToString() const;  // "2 cores: engine 1, trainer 1, boxes 2"
};

// Cores this process may use: its CPU affinity, less where a cgroup gives it a smaller share. At
// least 1.
int AvailableCores();

// One torch thread a port by default, because two BLAS threads that share two cores with a second
// port are slower than one; from 8 cores on a quarter of them each. A setting wins over the
// default.
ThreadPlan PlanThreads(const ThreadSettings& settings, int available_cores);

// The thread's name in `top -H` and debuggers; the kernel keeps 15 characters.
void NameThisThread(std::string_view name);

// Keeps BLAS and OpenMP at `threads` threads in each thread that calls them, unless the person who
// started the program said otherwise in OPENBLAS_NUM_THREADS or OMP_NUM_THREADS. To be called first
// in main(), before there are other threads: it changes the environment. OpenBLAS reads that when
// it is loaded, which may be before main(), so one that is loaded already is told directly as well.
void LimitBlasThreads(int threads);

// The path of this process in the cgroup hierarchy of `controller` ("" is version 2), as
// /proc/self/cgroup has it; "/" when it is in none.
std::string CgroupPathOf(std::string_view controller);

// The share of a cgroup as a number of cores, rounded up. "max 100000"
// (version 2) and a quota of -1 (version 1) mean no limit, 0.
int CoresOfQuota(const std::string& quota, const std::string& period);

}  // namespace tidemill
