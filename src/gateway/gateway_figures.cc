#include "gateway/gateway_figures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace tidemill {
namespace {

using FiguresJson = nlohmann::ordered_json;

constexpr double kFirstMs = 1;
constexpr double kGrowth = 1.2;
constexpr size_t kTenantsMost = 1000;
constexpr size_t kKindsMost = 64;
constexpr size_t kRowsShown = 100;

// The entry of that name; of one too many that of "others".
template <typename Entry>
Entry& EntryOf(std::map<std::string, Entry>& entries, const std::string& name, size_t most) {
  if (entries.size() >= most && !entries.contains(name)) return entries["others"];
  return entries[name];
}

FiguresJson OrNull(double value) {
  return value < 0 ? FiguresJson(nullptr) : FiguresJson(value);
}

template <typename Sums>
FiguresJson SumsJson(const Sums& s) {
  return {{"requests", s.requests},           {"errors", s.errors},
          {"prompt_tokens", s.prompt_tokens}, {"cached_tokens", s.cached_tokens},
          {"answer_tokens", s.answer_tokens}, {"last_ms", s.last_ms}};
}

// Those with the most requests first.
template <typename Sums>
FiguresJson RowsJson(const std::map<std::string, Sums>& entries, const char* name) {
  std::vector<std::pair<std::string, Sums>> sorted(entries.begin(), entries.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.requests > b.second.requests;
  });
  if (sorted.size() > kRowsShown) sorted.resize(kRowsShown);
  FiguresJson rows = FiguresJson::array();
  for (const auto& [key, entry] : sorted) {
    FiguresJson row = {{name, key}};
    row.update(SumsJson(entry));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

void DurationCounts::Add(double seconds) {
  const double steps = std::log(std::max(seconds * 1000, kFirstMs) / kFirstMs) / std::log(kGrowth);
  ++counts_[std::min(static_cast<size_t>(steps), kBuckets - 1)];
}

void DurationCounts::Add(const DurationCounts& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
}

double DurationCounts::PercentileMs(double share) const {
  uint64_t all = 0;
  for (const uint32_t count : counts_) all += count;
  if (all == 0) return -1;
  const auto wanted = static_cast<uint64_t>(share * static_cast<double>(all - 1));
  uint64_t seen = 0;
  size_t bucket = 0;
  while ((seen += counts_[bucket]) <= wanted) ++bucket;
  return kFirstMs * std::pow(kGrowth, static_cast<double>(bucket) + 0.5);
}

void GatewayFigures::Sums::Add(const RequestReport& report, int64_t wall_ms) {
  ++requests;
  if (!report.error.empty()) ++errors;
  prompt_tokens += report.prompt_tokens;
  cached_tokens += report.cached_tokens;
  answer_tokens += report.completion_tokens;
  last_ms = wall_ms;
}

GatewayFigures::Slot& GatewayFigures::SlotOf(int64_t wall_ms) const {
  const int64_t begin = wall_ms - wall_ms % kSlotMs;
  // A clock that was set back goes on in the newest.
  if (slots_.empty() || slots_.back().begin_ms < begin) slots_.push_back({.begin_ms = begin});
  while (slots_.size() > kSlots) slots_.pop_front();
  return slots_.back();
}

void GatewayFigures::Over(const RequestReport& report, const GatewayLoop::Counts& counts,
                          int64_t wall_ms) {
  MutexLock lock(mutex_);
  Slot& slot = SlotOf(wall_ms);
  slot.sums.Add(report, wall_ms);
  slot.running = std::max(slot.running, counts.running);
  slot.waiting = std::max(slot.waiting, counts.waiting);
  if (report.first_token_s > 0) slot.first_token.Add(report.first_token_s);
  total_.Add(report, wall_ms);
  if (!report.tenant.empty()) EntryOf(tenants_, report.tenant, kTenantsMost).Add(report, wall_ms);
  if (!report.error.empty()) EntryOf(errors_, report.error, kKindsMost).Add(report, wall_ms);
}

std::string GatewayFigures::Json(const Now& now) const {
  MutexLock lock(mutex_);
  Slot& latest = SlotOf(now.wall_ms);
  latest.running = std::max(latest.running, now.counts.running);
  latest.waiting = std::max(latest.waiting, now.counts.waiting);
  FiguresJson json = {{"model", now.model},
                      {"version", now.engine.version},
                      {"time_ms", now.wall_ms},
                      {"running", now.counts.running},
                      {"waiting", now.counts.waiting},
                      {"pages_used", now.engine.pages_used},
                      {"pages_cached", now.engine.pages_cached},
                      {"pages_total", now.engine.pages_total},
                      {"total", SumsJson(total_)},
                      {"slot_ms", kSlotMs}};
  FiguresJson series;
  for (const char* name :
       {"time_ms", "requests", "errors", "prompt_tokens", "cached_tokens", "tokens_per_s",
        "first_token_p50_ms", "first_token_p99_ms", "running", "waiting"}) {
    series[name] = FiguresJson::array();
  }
  DurationCounts all;
  const int64_t oldest = now.wall_ms - static_cast<int64_t>(kSlots) * kSlotMs;
  for (const Slot& slot : slots_) {
    if (slot.begin_ms < oldest) continue;
    all.Add(slot.first_token);
    series["time_ms"].push_back(slot.begin_ms);
    series["requests"].push_back(slot.sums.requests);
    series["errors"].push_back(slot.sums.errors);
    series["prompt_tokens"].push_back(slot.sums.prompt_tokens);
    series["cached_tokens"].push_back(slot.sums.cached_tokens);
    series["tokens_per_s"].push_back(static_cast<double>(slot.sums.answer_tokens) * 1000 / kSlotMs);
    series["first_token_p50_ms"].push_back(OrNull(slot.first_token.PercentileMs(0.5)));
    series["first_token_p99_ms"].push_back(OrNull(slot.first_token.PercentileMs(0.99)));
    series["running"].push_back(slot.running);
    series["waiting"].push_back(slot.waiting);
  }
  json["first_token_ms"] = {{"p50", OrNull(all.PercentileMs(0.5))},
                            {"p95", OrNull(all.PercentileMs(0.95))},
                            {"p99", OrNull(all.PercentileMs(0.99))}};
  json["series"] = std::move(series);
  json["tenants"] = RowsJson(tenants_, "tenant");
  json["errors"] = RowsJson(errors_, "kind");
  return json.dump(-1, ' ', false, FiguresJson::error_handler_t::replace);
}

}  // namespace tidemill
