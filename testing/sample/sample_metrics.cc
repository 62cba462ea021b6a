#include "testing/sample/sample_metrics.h"

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

// As if every answer had gone to the scorer "proof", with one in twenty audited.
nlohmann::ordered_json ProofColumns(double scored, double solved) {
  const double audited = std::floor(scored / 20);
  return {{"proofs_proved", solved},
          {"proofs_refuted", scored - solved},
          {"proofs_unknown", std::floor(scored / 100)},
          {"proof_micros", scored * 40},
          {"graded", audited},
          {"graded_micros", audited * 6000},
          {"audit_proof_accept_pass", std::floor(solved / 20)},
          {"audit_proof_accept_fail", 0},
          {"audit_proof_reject_pass", 1},
          {"audit_proof_reject_fail", std::floor((scored - solved) / 20)},
          {"audit_proof_level", 0},
          {"audit_proof_distrusted", 0}};
}

}  // namespace

double SampleWork::Until(int64_t now) {
  double some = 0;
  std::erase_if(spans_, [&](const auto& span) {
    (span.second <= now ? done_ : some) +=
        static_cast<double>(std::max<int64_t>(0, std::min(span.second, now) - span.first));
    return span.second <= now;
  });
  return done_ + some;
}

SampleMetrics::SampleMetrics(MetricsLog log, const SampleOptions& options, Random& random)
    : log_(std::move(log)),
      options_(options),
      random_(random),
      next_tick_ms_(options.begin_ms + 1000),
      last_{options.begin_ms, {}} {}

void SampleMetrics::Add(int64_t at_ms, const char* kind, const Json& fields) {
  if (!options_.metrics) return;
  Json json = {{"time_ms", at_ms}, {"kind", kind}};
  json.update(fields);
  lines_.emplace(at_ms, json.dump());
  if (options_.live) Flush(INT64_MAX);
}

void SampleMetrics::Flush(int64_t end) {
  const auto last = lines_.upper_bound(end);
  for (auto it = lines_.begin(); it != last; ++it) {
    TM_CHECK(log_.Append(it->second).ok(), "metrics");
  }
  lines_.erase(lines_.begin(), last);
}

void SampleMetrics::TicksUntil(int64_t end) {
  const TotalsAt reached{std::max(end, next_tick_ms_), totals};
  for (; next_tick_ms_ <= end; next_tick_ms_ += 1000) Tick(next_tick_ms_, reached);
  if (end > last_.at_ms) last_ = {end, totals};
  Flush(end);
}

void SampleMetrics::Tick(int64_t now, const TotalsAt& reached) {
  const double seconds = std::max(0.001, static_cast<double>(now - options_.begin_ms) / 1000);
  const auto span = static_cast<double>(std::max<int64_t>(1, reached.at_ms - last_.at_ms));
  const double part = std::clamp(static_cast<double>(now - last_.at_ms) / span, 0.0, 1.0);
  auto at = [&](double SampleTotals::*field) {
    return std::floor(last_.totals.*field + part * (reached.totals.*field - last_.totals.*field));
  };
  auto some = [&](double mean) { return std::floor(random_.Exponential(mean)); };
  auto share = [&](SampleWork& work, double workers) {
    return std::min(1.0, work.Until(now) / (seconds * 1000 * workers));
  };
  const double calls = at(&SampleTotals::tool_calls);
  Json tick = {{"seconds", seconds},
               {"steps", at(&SampleTotals::steps)},
               {"version", at(&SampleTotals::steps)},
               {"episodes_running", options_.slots},
               {"episodes_finished", at(&SampleTotals::episodes)},
               {"episodes_stored", at(&SampleTotals::episodes)},
               {"waiting_for_tools", some(3)},
               {"waiting_verdicts", some(2)},
               {"ready_episodes", some(12)},
               {"generated_tokens", at(&SampleTotals::generated)},
               {"trained_tokens", at(&SampleTotals::trained)},
               {"scored", at(&SampleTotals::scored)},
               {"solved", at(&SampleTotals::solved)},
               {"stale", at(&SampleTotals::stale)},
               {"too_old", 0},
               {"zero_variance", 0},
               {"duplicates", 0},
               {"dead_letters", 0},
               {"tool_calls", calls},
               {"gradings", at(&SampleTotals::scored)},
               {"cache_hits", std::floor(calls / 5)},
               {"cache_misses", calls - std::floor(calls / 5)},
               {"tool_retries", at(&SampleTotals::retries)},
               {"reward_retries", 0},
               {"tool_commands", calls - std::floor(calls / 5)},
               {"tool_ms", 180 + 2 * random_.Normal()},
               {"queue_ms", 25 + random_.Normal()},
               {"busy_port_engine", share(generating, options_.slots)},
               {"busy_port_boxes", share(boxes, options_.slots * 0.4)},
               {"busy_port_store", 0.04},
               {"busy_port_trainer", share(training, 1)},
               {"busy_loop_rollout", 0.05},
               {"busy_loop_tools", 0.02},
               {"busy_loop_reward", 0.01},
               {"busy_loop_replay", 0.03},
               {"busy_loop_learner", 0.01},
               {"busy_loop_dispatcher", 0.01},
               {"depth_rollout.groups", some(1)},
               {"depth_tools.run_tests", some(4)},
               {"depth_tools.grade", some(2)},
               {"depth_reward.score", some(1)},
               {"depth_replay.trajectories", some(1)},
               {"depth_dispatch.reports", some(1)}};
  tick.update(ProofColumns(at(&SampleTotals::scored), at(&SampleTotals::solved)));
  Add(now, "tick", tick);
}

}  // namespace tidemill
