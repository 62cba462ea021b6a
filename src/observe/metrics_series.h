// metrics.jsonl as the page wants it: columns of numbers by kind, thinned out to a bound, and the
// latest remarks. Follows a file that grows.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

// Whole lines of a file from `offset` on.
struct TailChunk {
  std::vector<std::string> lines;     // without their ends
  std::vector<uint64_t> end_offsets;  // of each line, its end included
  uint64_t next_offset = 0;
  bool more = false;  // there were more bytes than asked for
  bool started_over =
      false;  // the file is shorter than `offset`: it was replaced, read from its begin
};
// At most `bytes_max` bytes; a single longer line is skipped. No file: nothing, from offset 0.
Result<TailChunk> ReadTail(const std::string& path, uint64_t offset, size_t bytes_max);
// The lines whose "time_ms" is from `from_ms` to `to_ms`, found by bisection because a run writes
// them in the order of time. At most `bytes_max` bytes, the first ones.
Result<std::vector<std::string>> LinesBetween(const std::string& path, int64_t from_ms,
                                              int64_t to_ms, size_t bytes_max);
// Where the last whole line ends. No file: 0.
Result<uint64_t> LinesEnd(const std::string& path);

// Rows of numbers with the same kind. When it is full every second row goes, and from then on only
// every second (fourth, ..) one is kept; the newest is always there.
class MetricsSeries {
 public:
  static constexpr size_t kRowsMax = 4096;
  static constexpr size_t kColumnsMax = 200;

  void Add(int64_t time_ms, const std::map<std::string, double>& numbers);
  size_t rows() const { return times_.size(); }
  uint64_t seen() const { return seen_; }
  // {"seen": n, "time_ms": [..], "columns": {"steps": [..]}} with at most `points` rows. Columns
  // whose names begin with none of `prefixes` are left out (no prefixes: all stay).
  nlohmann::ordered_json ToJson(size_t points, const std::vector<std::string>& prefixes) const;
  // The newest row: {"time_ms": t, "steps": 3, ..}; an empty object before the first.
  nlohmann::ordered_json Newest() const;

 private:
  void DropRow(size_t row);
  void Halve();

  std::vector<int64_t> times_;
  std::map<std::string, std::vector<double>> columns_;  // NaN: not in that row
  uint64_t seen_ = 0;
  uint64_t stride_ = 1;
  bool newest_is_extra_ = false;  // the last row is kept only until the next comes
};

// Belongs to one thread at a time.
class MetricsFile {
 public:
  static constexpr size_t kRemarksMax = 500;

  explicit MetricsFile(std::string path) : path_(std::move(path)) {}
  // Takes in what was appended since the last call.
  Status Update();
  const MetricsSeries& Series(const std::string& kind) const;
  // Lines of other kinds ("eval", "checkpoint", "warning") as they are, oldest first.
  const std::deque<std::string>& remarks() const { return remarks_; }
  // Of all steps, by name ("lag", "span"): how often each value was there.
  const std::map<std::string, std::map<uint64_t, double>>& histograms() const {
    return histograms_;
  }
  uint64_t warnings() const { return warnings_; }
  uint64_t offset() const { return offset_; }
  uint64_t bad_lines() const { return bad_lines_; }

 private:
  void Take(const std::string& line);
  void AddToHistograms(const std::map<std::string, double>& numbers);

  std::string path_;
  uint64_t offset_ = 0;
  std::map<std::string, MetricsSeries> series_;
  std::map<std::string, std::map<uint64_t, double>> histograms_;
  std::deque<std::string> remarks_;
  uint64_t warnings_ = 0;
  uint64_t bad_lines_ = 0;
};

}  // namespace tidemill
