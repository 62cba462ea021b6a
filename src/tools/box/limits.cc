#include "tools/box/limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemill {

BoxLimits LimitsFrom(const v1::Limits& wanted, const BoxLimits& defaults) {
  BoxLimits limits = defaults;
  if (wanted.wall_ms() != 0) limits.wall = milliseconds(wanted.wall_ms());
  if (wanted.cpu_ms() != 0) limits.cpu = milliseconds(wanted.cpu_ms());
  if (wanted.memory_mb() != 0) limits.memory_bytes = uint64_t{wanted.memory_mb()} << 20;
  if (wanted.processes() != 0) limits.processes = wanted.processes();
  if (wanted.output_kb() != 0) limits.output_bytes = uint64_t{wanted.output_kb()} << 10;
  if (wanted.disk_mb() != 0) limits.disk_bytes = uint64_t{wanted.disk_mb()} << 20;
  return limits;
}

Status CheckLimits(const BoxLimits& limits) {
  const auto check = [](const char* name, double value, double low, double high,
                        const char* unit) -> Status {
    if (value >= low && value <= high) return Ok();
    return Invalid(fmt::format("the limit {} must be between {} and {} {}, got {}", name, low, high,
                               unit, value));
  };
  constexpr double kMiB = 1 << 20;
  TM_RETURN_IF_ERROR(check("wall_ms", Milliseconds(limits.wall), 1, 3.6e6, "ms"));
  TM_RETURN_IF_ERROR(check("cpu_ms", Milliseconds(limits.cpu), 1, 3.6e6, "ms"));
  TM_RETURN_IF_ERROR(
      check("memory_mb", static_cast<double>(limits.memory_bytes) / kMiB, 8, 1 << 20, "MiB"));
  TM_RETURN_IF_ERROR(
      check("processes", static_cast<double>(limits.processes), 1, 32768, "processes"));
  TM_RETURN_IF_ERROR(
      check("output_kb", static_cast<double>(limits.output_bytes) / 1024, 1, 1 << 20, "KiB"));
  return check("disk_mb", static_cast<double>(limits.disk_bytes) / kMiB, 1, 1 << 20, "MiB");
}

bool WasStarved(const CpuShare& share) {
  const double wall_us = Seconds(share.wall) * 1e6;
  const double wanted = static_cast<double>(share.cpu_us + share.waited_us);
  const double cores =
      static_cast<double>(share.cores) / static_cast<double>(std::max<size_t>(share.sharing, 1));
  const double usable = std::min(wanted, wall_us * cores);
  // Below a fifth of the time it hardly wanted the CPU, and sharing it fairly would have changed
  // nothing.
  return wanted > 0.2 * wall_us && static_cast<double>(share.cpu_us) < usable / 2;
}

}  // namespace tidemill
