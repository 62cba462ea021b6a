#include "store/tool_stats.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/enum_name.h"
#include "store/body_codec.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kRowsAtOnce = 256;

}  // namespace

void LatencyHistogram::Add(double ms) {
  if (!std::isfinite(ms) || ms < 0) ms = 0;
  const size_t bucket = ms <= 1 ? 0 : static_cast<size_t>(std::ceil(std::log2(ms)));
  ++counts_[std::min(bucket, kBuckets - 1)];
  ++count_;
  sum_ms_ += ms;
}

double LatencyHistogram::Quantile(double q) const {
  const double rank = q * static_cast<double>(count_);
  double below = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    const auto here = static_cast<double>(counts_[i]);
    if (below + here >= rank && here > 0) {
      const double low = i == 0 ? 0 : std::exp2(static_cast<double>(i) - 1);
      const double high = std::exp2(static_cast<double>(i));
      return low + (high - low) * std::clamp((rank - below) / here, 0.0, 1.0);
    }
    below += here;
  }
  return 0;
}

Json LatencyHistogram::ToJson() const {
  Json json;
  json["count"] = count_;
  json["mean_ms"] = count_ == 0 ? 0 : sum_ms_ / static_cast<double>(count_);
  json["p50_ms"] = Quantile(0.5);
  json["p95_ms"] = Quantile(0.95);
  Json& bounds = json["bounds_ms"] = Json::array();
  for (size_t i = 0; i < kBuckets; ++i) bounds.push_back(uint64_t{1} << i);
  json["counts"] = counts_;
  return json;
}

Status ToolStats::Advance(Database& db, std::chrono::milliseconds budget) {
  const auto stop = std::chrono::steady_clock::now() + budget;
  BodyCodec codec;
  v1::Trajectory trajectory;
  while (std::chrono::steady_clock::now() < stop) {
    uint64_t rows = 0;
    TM_RETURN_IF_ERROR(ForEachRow(
        db, "SELECT b.seq, b.body FROM bodies b WHERE b.seq > ?1 ORDER BY b.seq LIMIT ?2",
        [&](Statement& row) {
          ++rows;
          last_seq_ = row.Uint(0);
          ++read_;
          if (!codec.Unpack(row.Bytes(1), trajectory).ok()) {
            ++damaged_;
            return Ok();
          }
          Take(trajectory);
          return Ok();
        },
        last_seq_, kRowsAtOnce));
    complete_ = rows < kRowsAtOnce;
    if (complete_) return Ok();
  }
  return Ok();
}

void ToolStats::Take(const v1::Trajectory& trajectory) {
  for (const v1::Turn& turn : trajectory.turns()) {
    if (!turn.malformed().empty()) ++malformed_;
    for (const v1::ToolCall& call : turn.calls()) {
      const bool known = tools_.contains(call.tool()) || tools_.size() < kToolsMax;
      Tool& tool = tools_[known ? call.tool() : "other"];
      ++tool.calls;
      tool.retries += call.retries();
      retries_ += call.retries();
      tool.skipped += call.skipped() ? 1 : 0;
      skipped_ += call.skipped() ? 1 : 0;
      tool.tests_passed += call.tests_passed();
      tool.tests_total += call.tests_total();
      ++tool.outcomes[call.cancelled() ? "cancelled" : EnumName(call.outcome())];
      if (call.cancelled()) continue;  // it has no times
      tool.wait.Add(call.wait_ms());
      tool.run.Add(call.run_ms());
      tool.queue.Add(call.wait_ms() - call.run_ms());
    }
  }
}

Json ToolStats::ToJson() const {
  Json json;
  json["episodes_read"] = read_;
  json["complete"] = complete_;
  json["damaged"] = damaged_;
  json["malformed_calls"] = malformed_;
  Json& tools = json["tools"] = Json::array();
  for (const auto& [name, tool] : tools_) {
    tools.push_back({{"tool", name},
                     {"calls", tool.calls},
                     {"retries", tool.retries},
                     {"skipped", tool.skipped},
                     {"tests_passed", tool.tests_passed},
                     {"tests_total", tool.tests_total},
                     {"outcomes", tool.outcomes},
                     {"wait", tool.wait.ToJson()},
                     {"run", tool.run.ToJson()},
                     {"queue", tool.queue.ToJson()}});
  }
  return json;
}

}  // namespace tidemill
