#include "observe/process_metrics.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/version.h"

namespace tidemill {
namespace {

double CpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double OpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : static_cast<double>(std::distance(begin(files), end(files)));
}

}  // namespace

void AddProcessMetrics(Metrics& metrics) {
  const double started =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  metrics.AddSource([started](MetricSink& sink) {
    sink.Gauge("tidemill_build_info", "Version of the program", 1,
               {{"version", FullVersion()}, {"messages", std::to_string(kMessagesVersion)}});
    sink.Gauge("process_start_time_seconds", "Start time of the process in seconds since 1970",
               started);
    sink.Counter("process_cpu_seconds_total", "CPU time of all threads", CpuSeconds());
    sink.Gauge("process_resident_memory_bytes", "Resident memory", ResidentBytes());
    sink.Gauge("process_open_fds", "Open file descriptors", OpenFiles());
  });
}

}  // namespace tidemill
