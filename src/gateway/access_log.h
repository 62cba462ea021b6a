// One JSON line a request, without bodies, keys or texts of any conversation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/fd.h"
#include "core/mutex.h"
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
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ TM_GUARDED_BY(mutex_);
  uint64_t dropped_ TM_GUARDED_BY(mutex_) = 0;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tidemill
