#include "dashboard/run_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "observe/metrics_series.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMarginMs = 5'000;  // what begins in the window may be told after it
constexpr size_t kWorkBytesMax = size_t{8} << 20;

double NumberOf(const Json& line, const char* key) {
  const auto it = line.find(key);
  return it == line.end() || !it->is_number() ? 0 : it->get<double>();
}

// Lines are told when the work is done, with how long it took.
Json SpanOf(const Json& line, const char* doing) {
  const auto end = static_cast<int64_t>(NumberOf(line, "time_ms"));
  const auto took = static_cast<int64_t>(std::llround(NumberOf(line, "seconds") * 1000));
  Json span = {{"who", "trainer"}, {"doing", doing}, {"from_ms", end - took}, {"to_ms", end}};
  // A checkpoint is copied and written while the trainer goes on: its own part is the pause, which
  // is shown at the beginning. The update's share of it lies within the next step.
  if (line.contains("pause_seconds")) {
    const auto pause = std::llround(NumberOf(line, "pause_seconds") * 1000);
    span["to_ms"] = std::min<int64_t>(end, end - took + pause);
  }
  for (const char* key : {"step", "version"}) {
    if (line.contains(key)) span[key] = line[key];
  }
  return span;
}

// Ticks tell the share since the run began; what was done between two of them is the difference.
class BusyRows {
 public:
  void Add(const Json& tick) {
    const double seconds = NumberOf(tick, "seconds");
    std::map<std::string, double> worked;
    for (const auto& [key, value] : tick.items()) {
      if (key.rfind("busy_", 0) == 0 && value.is_number()) {
        worked[key.substr(5)] = value.get<double>() * seconds;
      }
    }
    const auto at = static_cast<int64_t>(NumberOf(tick, "time_ms"));
    // A resumed run starts its clock anew.
    if (any_ && seconds > seconds_) {
      from_.push_back(at_);
      to_.push_back(at);
      for (const auto& [name, total] : worked) {
        auto& column = columns_[name];
        column.resize(from_.size() - 1, nullptr);
        const auto before = worked_.find(name);
        const double done = total - (before == worked_.end() ? 0 : before->second);
        const double share = std::clamp(done / (seconds - seconds_), 0.0, 1.0);
        column.push_back(std::round(share * 1000) / 1000);
      }
    }
    any_ = true;
    seconds_ = seconds, at_ = at, worked_ = std::move(worked);
  }

  Json ToJson() {
    Json columns = Json::object();
    for (auto& [name, column] : columns_) {
      column.resize(from_.size(), nullptr);
      columns[name] = column;
    }
    return {{"from_ms", from_}, {"to_ms", to_}, {"columns", columns}};
  }

 private:
  bool any_ = false;
  double seconds_ = 0;
  int64_t at_ = 0;
  std::map<std::string, double> worked_;  // seconds, by "port_engine"
  std::vector<int64_t> from_, to_;
  std::map<std::string, std::vector<Json>> columns_;
};

}  // namespace

Result<Json> ReadWork(const std::string& metrics_path, int64_t from_ms, int64_t to_ms) {
  Json spans = Json::array();
  BusyRows busy;
  if (to_ms - from_ms <= kWorkWindowMs) {
    TM_ASSIGN_OR_RETURN(
        const std::vector<std::string> lines,
        LinesBetween(metrics_path, from_ms - kMarginMs, to_ms + kMarginMs, kWorkBytesMax));
    for (const std::string& text : lines) {
      // Steps are long, many, and told by the database.
      if (text.find("\"kind\":\"step\"") != std::string::npos) continue;
      const Json line = Json::parse(text, nullptr, false);
      if (!line.is_object() || !line.contains("kind") || !line["kind"].is_string()) continue;
      const std::string kind = line["kind"].get<std::string>();
      if (kind == "tick") busy.Add(line);
      if (kind == "publish") spans.push_back(SpanOf(line, "publishing"));
      if (kind == "checkpoint") spans.push_back(SpanOf(line, "checkpoint"));
    }
  }
  return Json{{"spans", spans}, {"busy", busy.ToJson()}};
}

}  // namespace tidemill
