#include "core/threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace tidemill {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// 0: no limit, or none that can be read.
int CgroupCores() {
  for (const std::string& dir :
       {"/sys/fs/cgroup" + CgroupPathOf(""), std::string("/sys/fs/cgroup")}) {
    const std::string max = FirstLine(dir + "/cpu.max");
    const size_t space = max.find(' ');
    if (space == std::string::npos) continue;
    return CoresOfQuota(max.substr(0, space), max.substr(space + 1));
  }
  const std::string root = "/sys/fs/cgroup/cpu";
  for (const std::string& dir : {root + CgroupPathOf("cpu"), root}) {
    const std::string quota = FirstLine(dir + "/cpu.cfs_quota_us");
    if (!quota.empty()) return CoresOfQuota(quota, FirstLine(dir + "/cpu.cfs_period_us"));
  }
  return 0;
}

}  // namespace

std::string CgroupPathOf(std::string_view controller) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool found = controller.empty() ? controllers == ",,"
                                          : controllers.find("," + std::string(controller) + ",") !=
                                                std::string::npos;
    if (found) return line.substr(second + 1);
  }
  return "/";
}

int CoresOfQuota(const std::string& quota, const std::string& period) {
  const long quota_us = std::strtol(quota.c_str(), nullptr, 10);
  const long period_us = std::strtol(period.c_str(), nullptr, 10);
  if (quota_us <= 0 || period_us <= 0) return 0;
  return static_cast<int>(std::min(4096L, (quota_us - 1) / period_us + 1));
}

int AvailableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const int share = CgroupCores(); share > 0) cores = std::min(cores, share);
  return std::max(cores, 1);
}

ThreadPlan PlanThreads(const ThreadSettings& settings, int available_cores) {
  ThreadPlan plan;
  plan.cores = settings.cores > 0 ? settings.cores : std::max(available_cores, 1);
  const int of_a_port = plan.cores < 8 ? 1 : plan.cores / 4;
  plan.engine = settings.engine > 0 ? settings.engine : of_a_port;
  plan.trainer = settings.trainer > 0 ? settings.trainer : of_a_port;
  // The ports are not always busy, and a box mostly waits for processes to start: all the cores on
  // a small machine, what the ports leave on a large one.
  plan.boxes = settings.boxes > 0 ? settings.boxes
               : plan.cores < 8   ? plan.cores
                                  : plan.cores - plan.engine - plan.trainer;
  return plan;
}

std::string ThreadPlan::ToString() const {
  return std::to_string(cores) + (cores == 1 ? " core" : " cores") + ": engine " +
         std::to_string(engine) + ", trainer " + std::to_string(trainer) + ", boxes " +
         std::to_string(boxes);
}

void NameThisThread(std::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}

void LimitBlasThreads(int threads) {
  TM_CHECK(threads > 0);
  const std::string count = std::to_string(threads);
  const bool blas_said = std::getenv("OPENBLAS_NUM_THREADS") != nullptr;
  const bool omp_said = std::getenv("OMP_NUM_THREADS") != nullptr;
  setenv("OMP_NUM_THREADS", count.c_str(), 0);
  // OpenBLAS falls back on OpenMP's variable; a person who set only that one means both.
  if (blas_said || omp_said) return;
  setenv("OPENBLAS_NUM_THREADS", count.c_str(), 0);
  using SetThreads = void (*)(int);
  if (void* symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
    reinterpret_cast<SetThreads>(symbol)(threads);
  }
}

}  // namespace tidemill
