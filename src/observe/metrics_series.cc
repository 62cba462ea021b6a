#include "observe/metrics_series.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSeriesBytesAtOnce = size_t{4} << 20;
constexpr size_t kProbe = size_t{64} << 10;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

class File {
 public:
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Numbers for people and plots: six digits are plenty, and half the bytes.
Json Number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::round(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return std::strtod(text, nullptr);
}

// Of a line of metrics.jsonl; 0 where it is no such line.
int64_t TimeOf(const std::string& line) {
  static constexpr std::string_view kBegin = "{\"time_ms\":";  // as a run writes it
  if (line.rfind(kBegin, 0) == 0) return std::strtoll(line.c_str() + kBegin.size(), nullptr, 10);
  const Json json = Json::parse(line, nullptr, false);
  const bool has = json.is_object() && json.contains("time_ms") && json["time_ms"].is_number();
  return has ? json["time_ms"].get<int64_t>() : 0;
}

bool Wanted(const std::string& name, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) return true;
  for (const std::string& prefix : prefixes) {
    if (name.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

}  // namespace

Result<TailChunk> ReadTail(const std::string& path, uint64_t offset, size_t bytes_max) {
  TailChunk chunk;
  const File file(path);
  if (file.fd() < 0) {
    if (errno == ENOENT) return chunk;
    return Unavailable(path + ": cannot open: " + std::strerror(errno));
  }
  struct stat info {};
  if (fstat(file.fd(), &info) != 0) return Unavailable(path + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Invalid(path + ": not a regular file");
  const auto size = static_cast<uint64_t>(info.st_size);
  chunk.started_over = offset > size;
  if (chunk.started_over) offset = 0;
  std::string bytes(std::min<uint64_t>(bytes_max, size - offset), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n =
        pread(file.fd(), bytes.data() + got, bytes.size() - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Unavailable(path + ": cannot read: " + std::strerror(errno));
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  bytes.resize(got);
  size_t begin = 0;
  for (size_t end; (end = bytes.find('\n', begin)) != std::string::npos; begin = end + 1) {
    chunk.lines.push_back(bytes.substr(begin, end - begin));
    chunk.end_offsets.push_back(offset + end + 1);
  }
  // A line longer than what is read at once is nothing of ours.
  if (begin == 0 && got == bytes_max) begin = got;
  chunk.next_offset = offset + begin;
  chunk.more = chunk.next_offset < size && begin > 0;
  return chunk;
}

Result<std::vector<std::string>> LinesBetween(const std::string& path, int64_t from_ms,
                                              int64_t to_ms, size_t bytes_max) {
  TM_ASSIGN_OR_RETURN(const uint64_t end, LinesEnd(path));
  // Lines that begin before `low` are too early; the first that begins at `high` or later is not.
  uint64_t low = 0, high = end;
  while (high - low > kProbe) {
    const uint64_t middle = low + (high - low) / 2;
    TM_ASSIGN_OR_RETURN(const TailChunk chunk, ReadTail(path, middle, kProbe));
    // The first line began before `middle`, most likely; the second is whole.
    const int64_t at = chunk.lines.size() < 2 ? from_ms : TimeOf(chunk.lines[1]);
    if (at < from_ms && chunk.lines.size() >= 2) {
      low = chunk.end_offsets[0];
    } else {
      high = middle;
    }
  }
  std::vector<std::string> lines;
  for (size_t bytes = 0; low < end && bytes < bytes_max;) {
    TM_ASSIGN_OR_RETURN(TailChunk chunk, ReadTail(path, low, kProbe));
    if (chunk.next_offset <= low) break;
    low = chunk.next_offset;
    for (std::string& line : chunk.lines) {
      const int64_t at = TimeOf(line);
      if (at > to_ms) return lines;
      bytes += line.size();
      if (at >= from_ms) lines.push_back(std::move(line));
    }
  }
  return lines;
}

Result<uint64_t> LinesEnd(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return uint64_t{0};
    return Unavailable(path + ": " + std::strerror(errno));
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  TM_ASSIGN_OR_RETURN(
      const TailChunk chunk,
      ReadTail(path, size - std::min<uint64_t>(size, kSeriesBytesAtOnce), kSeriesBytesAtOnce));
  return chunk.next_offset;
}

void MetricsSeries::Add(int64_t time_ms, const std::map<std::string, double>& numbers) {
  if (newest_is_extra_) DropRow(times_.size() - 1);
  newest_is_extra_ = seen_ % stride_ != 0;
  ++seen_;
  times_.push_back(time_ms);
  for (const auto& [name, value] : numbers) {
    auto it = columns_.find(name);
    if (it == columns_.end()) {
      if (columns_.size() == kColumnsMax) continue;
      it = columns_.emplace(name, std::vector<double>(times_.size() - 1, kMissing)).first;
    }
    it->second.push_back(value);
  }
  for (auto& [name, column] : columns_) column.resize(times_.size(), kMissing);
  if (times_.size() > kRowsMax) Halve();
}

void MetricsSeries::DropRow(size_t row) {
  times_.erase(times_.begin() + static_cast<ptrdiff_t>(row));
  for (auto& [name, column] : columns_) column.erase(column.begin() + static_cast<ptrdiff_t>(row));
}

void MetricsSeries::Halve() {
  auto halve = [](auto& values) {
    size_t kept = 0;
    for (size_t i = 0; i < values.size(); i += 2) values[kept++] = values[i];
    values.resize(kept);
  };
  halve(times_);
  for (auto& [name, column] : columns_) halve(column);
  stride_ *= 2;
  newest_is_extra_ = false;
}

Json MetricsSeries::ToJson(size_t points, const std::vector<std::string>& prefixes) const {
  std::vector<size_t> rows;
  const size_t n = times_.size();
  if (n <= points) {
    for (size_t i = 0; i < n; ++i) rows.push_back(i);
  } else {
    // The first and the last are among them.
    for (size_t i = 0; i < points; ++i)
      rows.push_back(points == 1 ? n - 1 : i * (n - 1) / (points - 1));
  }
  Json json;
  json["seen"] = seen_;
  Json& times = json["time_ms"] = Json::array();
  for (const size_t row : rows) times.push_back(times_[row]);
  Json& columns = json["columns"] = Json::object();
  for (const auto& [name, column] : columns_) {
    if (!Wanted(name, prefixes)) continue;
    Json values = Json::array();
    for (const size_t row : rows) values.push_back(Number(column[row]));
    columns[name] = std::move(values);
  }
  return json;
}

Json MetricsSeries::Newest() const {
  Json json = Json::object();
  if (times_.empty()) return json;
  json["time_ms"] = times_.back();
  for (const auto& [name, column] : columns_) {
    if (!std::isnan(column.back())) json[name] = Number(column.back());
  }
  return json;
}

Status MetricsFile::Update() {
  while (true) {
    TM_ASSIGN_OR_RETURN(TailChunk chunk, ReadTail(path_, offset_, kSeriesBytesAtOnce));
    if (chunk.started_over) *this = MetricsFile(path_);
    for (const std::string& line : chunk.lines) Take(line);
    offset_ = chunk.next_offset;
    if (!chunk.more) return Ok();
  }
}

void MetricsFile::Take(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  const auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  if (!json.is_object() || !json.contains("time_ms") || !json["time_ms"].is_number() ||
      text("kind").empty()) {
    ++bad_lines_;
    return;
  }
  const std::string kind = text("kind");
  if (kind != "tick" && kind != "step" && kind != "publish") {
    if (kind == "warning") ++warnings_;
    if (remarks_.size() == kRemarksMax) remarks_.pop_front();
    remarks_.push_back(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  std::map<std::string, double> numbers;
  for (const auto& [key, value] : json.items()) {
    if (key != "time_ms" && value.is_number()) numbers[key] = value.get<double>();
  }
  if (kind == "step") AddToHistograms(numbers);
  series_[kind].Add(json["time_ms"].get<int64_t>(), numbers);
}

// "lag_hist_3": so many tokens with a lag of 3; "lag_hist_16+": with 16 or more.
void MetricsFile::AddToHistograms(const std::map<std::string, double>& numbers) {
  constexpr std::string_view kMark = "_hist_";
  constexpr size_t kHistogramsMax = 16, kBucketsMax = 64;
  for (const auto& [key, count] : numbers) {
    const size_t at = key.find(kMark);
    if (at == std::string::npos || !(count > 0)) continue;
    const std::string name = key.substr(0, at);
    if (histograms_.size() >= kHistogramsMax && histograms_.count(name) == 0) continue;
    std::map<uint64_t, double>& buckets = histograms_[name];
    const uint64_t bucket = std::strtoull(key.c_str() + at + kMark.size(), nullptr, 10);
    if (buckets.size() < kBucketsMax || buckets.count(bucket) != 0) buckets[bucket] += count;
  }
}

const MetricsSeries& MetricsFile::Series(const std::string& kind) const {
  static const MetricsSeries none;
  const auto it = series_.find(kind);
  return it == series_.end() ? none : it->second;
}

}  // namespace tidemill
