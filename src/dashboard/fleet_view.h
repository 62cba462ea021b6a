// The fleet of a run as the page shows it: the roster and the topics on Redis, read anew when
// somebody asks and what is known is a second old. The same RunStatus as `tidemill status` prints.
//
//   page -> /api/runs/R/fleet -> FleetView -> RunStatusReader -> Redis
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/clock.h"
#include "core/mutex.h"
#include "dashboard/run_json.h"
#include "http/http_message.h"
#include "observe/run_status.h"

namespace tidemill {

struct FleetLook {
  // "none": no bus was given, "absent": the bus has no such run, "silent": Redis does not answer,
  // "asking": it was not read yet, "here".
  std::string state = "none";
  std::string error = {};  // of "silent"
  int64_t read_ms = 0;     // when `status` was read; 0: never
  // Shared by all who asked; of the last time it could be read.
  std::shared_ptr<const RunStatus> status = nullptr;
};

// Thread-safe. One thread at a time waits for Redis, two seconds at most; others get what is known.
class FleetView {
 public:
  // An empty url: every run is "none".
  explicit FleetView(std::string url) : url_(std::move(url)) {}

  FleetLook Look(const std::string& run);

 private:
  FleetLook Known(const std::string& run);
  Result<RunStatus> Read(const std::string& run) TM_REQUIRES(reading_);

  static constexpr size_t kRunsMax = 16;

  struct Entry {
    FleetLook look;
    Time read_at = Time::min();
  };
  const std::string url_;
  const RealClock clock_;
  Mutex reading_;  // held while Redis is asked
  std::unique_ptr<RunStatusReader> reader_ TM_GUARDED_BY(reading_);
  Mutex mutex_;
  std::map<std::string, Entry> entries_ TM_GUARDED_BY(mutex_);
};

// The answer to a request: figures of the whole fleet and by role, the topics everybody shares, and
// a page of workers. kInvalid: a parameter.
Result<ApiJson> FleetJson(const FleetLook& look, const HttpRequest& request);

}  // namespace tidemill
