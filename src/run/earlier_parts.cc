#include "run/earlier_parts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "observe/metrics_series.h"
#include "run/run_counters.h"

namespace tidemill {
namespace {

using EarlierJson = nlohmann::json;

constexpr size_t kTailBytes = size_t{4} << 20;

}  // namespace

Result<EarlierParts> EarlierParts::Read(const std::string& path) {
  EarlierParts parts;
  TM_ASSIGN_OR_RETURN(const uint64_t end, LinesEnd(path));
  TM_ASSIGN_OR_RETURN(const TailChunk chunk,
                      ReadTail(path, end - std::min<uint64_t>(end, kTailBytes), kTailBytes));
  for (auto line = chunk.lines.rbegin(); line != chunk.lines.rend(); ++line) {
    const EarlierJson json = EarlierJson::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("kind", "") != "tick") continue;
    for (const auto& [key, value] : json.items()) {
      if (value.is_number()) parts.last_[key] = value.get<double>();
    }
    const auto seconds = parts.last_.find("seconds");
    if (seconds != parts.last_.end()) parts.seconds_ = std::max(0.0, seconds->second);
    return parts;
  }
  return parts;
}

void EarlierParts::AddTo(RunSnapshot& snapshot) const {
  if (last_.empty()) return;
  const CounterTable& table = RunCounters();
  for (auto& [key, count] : snapshot.counts) {
    const auto about = table.find(key);
    const auto before = last_.find(key);
    const bool total = about != table.end() && about->second.kind == Counter::Kind::kTotal;
    if (!total || before == last_.end() || !(before->second > 0)) continue;
    count += static_cast<uint64_t>(before->second);
  }
  const double whole = snapshot.seconds + seconds_;
  for (BusyShare& busy : snapshot.busy) {
    const auto before = last_.find((busy.port ? "busy_port_" : "busy_loop_") + busy.name);
    const double share = before == last_.end() ? 0 : before->second;
    busy.share = (busy.share * snapshot.seconds + share * seconds_) / std::max(1e-9, whole);
  }
  snapshot.seconds = whole;
}

RunSnapshot EarlierParts::Last() const {
  RunSnapshot snapshot;
  snapshot.seconds = seconds_;
  for (const auto& [key, number] : last_) {
    const bool port = key.rfind("busy_port_", 0) == 0;
    if (port || key.rfind("busy_loop_", 0) == 0) {
      snapshot.busy.push_back({key.substr(10), port, number});
    } else if (RunCounters().count(key) != 0 && number > 0) {
      snapshot.counts[key] = static_cast<uint64_t>(number);
    }
  }
  return snapshot;
}

}  // namespace tidemill
