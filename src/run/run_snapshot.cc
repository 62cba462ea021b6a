#include "run/run_snapshot.h"

namespace tidemill {

Numbers RunSnapshot::ToNumbers() const {
  Numbers numbers = {{"seconds", seconds}, {"tool_ms", tool_ms()}, {"queue_ms", queue_ms()}};
  for (const auto& [key, count] : counts) numbers[key] = static_cast<double>(count);
  for (const BusyShare& one : busy) {
    numbers[(one.port ? "busy_port_" : "busy_loop_") + one.name] = one.share;
  }
  for (const auto& [topic, depth] : depths) numbers["depth_" + topic] = static_cast<double>(depth);
  for (const auto& [role, count] : workers) numbers["workers_" + role] = static_cast<double>(count);
  if (!workers.empty()) numbers["workers_lost"] = static_cast<double>(workers_lost);
  return numbers;
}

}  // namespace tidemill
