// The process beside a run that tells trackers of others about it (python/tidemill/track.py).
//
//   points -> track.jsonl -> tidemill.track -> wandb, mlflow
//
// It reads the file, the run's config and its episodes at its own pace, so a tracker that is slow
// or away delays nothing. track.told is its own: what was told before a resume is not told again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "core/status.h"
#include "observe/track_config.h"

namespace tidemill {

class Tracker {
 public:
  // Null: `config` names no tracker that needs it. kUnavailable: no such Python, or no file. The
  // file is new: a run that goes on begins with all the points it has.
  static Result<std::unique_ptr<Tracker>> Start(const TrackConfig& config, const std::string& run);
  // Tells it that the run is over, and waits as long as configured. What it has not told by then it
  // goes on telling alone.
  ~Tracker();

  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  // Scalars of one step; those that are not finite are left out.
  Status Append(int64_t at_ms, int64_t step, const std::map<std::string, double>& scalars);

 private:
  Tracker(std::string path, std::FILE* file, pid_t pid, milliseconds wait)
      : path_(std::move(path)), file_(file), pid_(pid), wait_(wait) {}

  const std::string path_;
  std::FILE* const file_;
  const pid_t pid_;
  const milliseconds wait_;
};

}  // namespace tidemill
