// One JSON line a request, without bodies, keys or texts of any conversation.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/fd.h"
#include "core/status.h"
#include "core/work_queue.h"
#include "gateway/request_report.h"

namespace tidemill {

// The line without its end.
std::string AccessLine(const RequestReport& report, int64_t wall_ms);

// Thread-safe. Lines are written by a thread of its own; where the disk does not keep up, lines are
// dropped and counted.
class AccessLog {
 public:
  // Appends to the file, "-" is standard error. `clock` must outlive it.
  static Result<std::unique_ptr<AccessLog>> Open(const std::string& path, const Clock& clock);
  // Writes what waits.
  ~AccessLog() = default;

  void Add(const RequestReport& report);
  uint64_t dropped() const { return dropped_; }

 private:
  AccessLog(Fd fd, std::string path, const Clock& clock);
  void Write(const std::vector<std::string>& lines);

  const Fd fd_;
  const std::string path_;
  const Clock& clock_;
  std::atomic<uint64_t> dropped_{0};
  WorkQueue<std::string> lines_;  // last: its thread uses all of the above
};

}  // namespace tidemill
