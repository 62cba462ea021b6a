// One JSON line a request, without bodies, keys or texts of any conversation.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/fd.h"
#include "core/status.h"
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
  ~AccessLog();

  void Add(const RequestReport& report);
  uint64_t dropped() const;

 private:
  AccessLog(Fd fd, std::string path, const Clock& clock);
  void Write();

  const Fd fd_;
  const std::string path_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;  // guarded by mutex_
  uint64_t dropped_ = 0;            // guarded by mutex_
  bool stop_ = false;               // guarded by mutex_
  std::thread thread_;
};

}  // namespace tidemill
