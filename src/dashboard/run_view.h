// One run as the API sees it: its directory, its database opened to read, its metrics as far as
// they were read, its tokenizer. Kept between requests.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "memory/memory_history.h"
#include "model/tokenizer.h"
#include "observe/metrics_series.h"
#include "store/run_directory.h"
#include "store/run_queries.h"
#include "store/run_reader.h"
#include "store/tool_stats.h"

namespace tidemill {

// "a.b" -> its value as JSON text, of a TOML document. kInvalid says where it is wrong.
Result<std::map<std::string, std::string>> FlattenToml(const std::string& toml,
                                                       const std::string& file_name);

// Thread-safe: each part has its own lock, so that a slow question holds up only its like.
class RunView {
 public:
  // kNotFound: no such run.
  static Result<std::shared_ptr<RunView>> Open(const std::string& folder, const std::string& name);

  // Whether the directory still holds the database that was opened.
  bool Current() const;
  const RunDirectory& directory() const { return directory_; }
  // kUnavailable while the run has not made its database yet.
  Result<RunReader*> reader();

  // Runs `use` with the metrics, brought up to date.
  template <typename Use>
  Status WithMetrics(Use use) {
    MutexLock lock(metrics_mutex_);
    TM_RETURN_IF_ERROR(metrics_.Update());
    use(static_cast<const MetricsFile&>(metrics_));
    return Ok();
  }
  // Runs `use` with a connection and the sums over tool calls.
  template <typename Use>
  Status WithDatabase(Use use) {
    MutexLock lock(db_mutex_);
    TM_RETURN_IF_ERROR(OpenDatabase());
    return use(*db_, tools_);
  }
  // Runs `use` with a connection and the history of memory. kInvalid: the run has none.
  template <typename Use>
  Status WithMemory(Use use) {
    MutexLock lock(db_mutex_);
    TM_RETURN_IF_ERROR(OpenDatabase());
    if (!memory_) TM_RETURN_IF_ERROR(OpenMemory());
    return use(*db_, *memory_);
  }
  // As RunQueries gives them, kept while nothing was stored, and for two seconds while a run goes
  // on.
  Result<TaskTrends> Trends(v1::Purpose purpose, uint32_t intervals);
  // None: the model of the config is not here (any more).
  std::optional<Tokenizer> tokenizer();

 private:
  explicit RunView(RunDirectory directory);
  Status OpenDatabase() TM_REQUIRES(db_mutex_);
  Status OpenMemory() TM_REQUIRES(db_mutex_);

  RunDirectory directory_;
  uint64_t inode_ = 0;

  Mutex reader_mutex_;
  std::unique_ptr<RunReader> reader_ TM_GUARDED_BY(reader_mutex_);  // until it is there

  Mutex metrics_mutex_;
  MetricsFile metrics_ TM_GUARDED_BY(metrics_mutex_);

  Mutex db_mutex_;
  std::unique_ptr<Database> db_ TM_GUARDED_BY(db_mutex_);
  ToolStats tools_ TM_GUARDED_BY(db_mutex_);
  std::unique_ptr<MemoryHistory> memory_ TM_GUARDED_BY(db_mutex_);  // once somebody asked
  struct KeptTrends {
    TaskTrends trends;
    int64_t mark = 0;
    int64_t read_ms = 0;
  };
  std::map<std::pair<int, uint32_t>, KeptTrends> trends_ TM_GUARDED_BY(db_mutex_);  // few

  Mutex tokenizer_mutex_;
  bool tokenizer_tried_ TM_GUARDED_BY(tokenizer_mutex_) = false;
  std::optional<Tokenizer> tokenizer_ TM_GUARDED_BY(tokenizer_mutex_);
};

// The runs of a folder, the last few used kept open. Thread-safe.
class RunViews {
 public:
  static constexpr size_t kOpenMax = 8;
  explicit RunViews(std::string folder) : folder_(std::move(folder)) {}
  const std::string& folder() const { return folder_; }
  Result<std::shared_ptr<RunView>> Get(const std::string& name);

 private:
  const std::string folder_;
  Mutex mutex_;
  // The last used at the end; shared with the requests that use them.
  std::vector<std::pair<std::string, std::shared_ptr<RunView>>> open_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
