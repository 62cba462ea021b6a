// A run's directory: everything a run leaves behind, in one place.
//
//   runs/NAME/  config.toml  run.db  blobs/  metrics.jsonl  checkpoints/  summary.json  lock
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

// A run in `tidemill runs list`, read without opening its database.
struct RunInfo {
  std::string name;
  std::string path;
  bool writing = false;      // a process holds its lock now
  bool has_summary = false;  // it came to its end at least once
  int64_t modified_ms = 0;   // newest of its files
};

// While one that writes exists, no other process (nor another one here) can open the run for
// writing.
class RunDirectory {
 public:
  // Makes runs_root/name and writes config.toml. kExists: there is such a run. kUnavailable:
  // another process is making or writing it.
  static Result<RunDirectory> Create(const std::string& runs_root, const std::string& name,
                                     std::string_view config_toml);
  // To go on with it, or to look at it. kNotFound: there is no such run. OpenToResume: kUnavailable
  // names the process that writes it now; kNotFound also where run.db is gone from a run that did
  // work.
  static Result<RunDirectory> OpenToResume(const std::string& runs_root, const std::string& name);
  static Result<RunDirectory> OpenToRead(const std::string& runs_root, const std::string& name);
  // By name. No such root: no runs. Directories that are no runs are left out.
  static Result<std::vector<RunInfo>> List(const std::string& runs_root);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory();

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  std::string config_path() const { return path_ + "/config.toml"; }
  std::string db_path() const { return path_ + "/run.db"; }
  std::string blobs_path() const { return path_ + "/blobs"; }
  std::string metrics_path() const { return path_ + "/metrics.jsonl"; }
  std::string checkpoints_path() const { return path_ + "/checkpoints"; }
  std::string summary_path() const { return path_ + "/summary.json"; }
  std::string secret_path() const { return path_ + "/secret"; }
  std::string lock_path() const { return path_ + "/lock"; }
  // A path that run.db holds: within the run's folder, wherever that is now.
  std::string Inside(const std::string& path) const;

  // Of one that writes: kNotFound once the directory is no longer where it was, because somebody
  // deleted, moved or replaced it. What is written after that is lost.
  Status CheckThere() const;

  Result<std::string> ReadConfig() const;
  Result<std::string> ReadSummary() const;  // kNotFound: the run has not come to its end
  // Removes everything; of one that writes. Nothing else may be done with it afterwards.
  void Discard();
  // Only one that writes may. Whole or as before, whatever happens.
  Status WriteConfig(std::string_view toml);
  Status WriteSummary(std::string_view json);
  void RemoveSummary();

 private:
  RunDirectory(std::string name, std::string path)
      : name_(std::move(name)), path_(std::move(path)) {}
  Status TakeLock();
  Status CheckDatabaseThere() const;

  std::string name_;
  std::string path_;
  int lock_fd_ = -1;  // -1: reads only
};

// The link in checkpoints/ to the checkpoint with the highest pass rate of those evaluated.
inline constexpr char kBestCheckpoint[] = "best";

// Holds the address of the gateway that writes the run in this folder now.
inline std::string GatewayFile(const std::string& run_path) {
  return run_path + "/gateway";
}

// Holds which version the clients of the run in this folder are served, and why, as JSON.
inline std::string ReleaseFile(const std::string& run_path) {
  return run_path + "/release.json";
}

// Holds the alarms of a run that is served, and what it keeps from training, as JSON.
inline std::string GuardsFile(const std::string& run_path) {
  return run_path + "/guards.json";
}

// A name is 1 to 100 of a-z A-Z 0-9 . _ - and does not begin with a dot or a dash.
Status CheckRunName(std::string_view name);

// metrics.jsonl: one JSON object a line, appended. Belongs to one thread at a time. A line is
// written whole with one call; it is not synced, because the database has what must not be lost.
class MetricsLog {
 public:
  // A last line that a crash left unfinished is cut off.
  static Result<MetricsLog> Open(const std::string& path);
  MetricsLog(MetricsLog&& other) noexcept;
  MetricsLog& operator=(MetricsLog&&) = delete;
  ~MetricsLog();

  // `json` is one object without line breaks.
  Status Append(std::string_view json);

 private:
  MetricsLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

}  // namespace tidemill
