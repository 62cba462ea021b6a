#include "reward/audit.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace tidemill {
namespace {

Counter::About Cell(const std::string& scorer, const char* said, const char* executed) {
  return {.key = "audit_" + scorer + "_" + said + "_" + executed,
          .metric = "tidemill_audited_total",
          .help = "Episodes scored both without and by execution",
          .labels = {{"scorer", scorer}, {"said", said}, {"executed", executed}}};
}

}  // namespace

double AlarmProbability(uint32_t gain, uint32_t threshold, double rate, uint32_t answers) {
  std::vector<double> at(threshold, 0.0), next(threshold);
  at[0] = 1;
  double alarmed = 0;
  for (uint32_t n = 0; n < answers; ++n) {
    std::fill(next.begin(), next.end(), 0.0);
    for (uint32_t level = 0; level < threshold; ++level) {
      if (at[level] == 0) continue;
      if (level + gain >= threshold)
        alarmed += at[level] * rate;
      else
        next[level + gain] += at[level] * rate;
      next[level == 0 ? 0 : level - 1] += at[level] * (1 - rate);
    }
    at.swap(next);
  }
  return alarmed;
}

WrongAccepts::WrongAccepts(const Rates& rates) {
  const double up = std::log(rates.alarm_at / rates.tolerated);
  const double down = std::log((1 - rates.tolerated) / (1 - rates.alarm_at));
  gain_ = static_cast<uint32_t>(std::clamp(std::round(up / down), 1.0, 100'000.0));
  // The smallest threshold that keeps to the rate: doubled, then halved in.
  uint32_t low = 1, high = gain_;
  const auto keeps = [&](uint32_t threshold) {
    return AlarmProbability(gain_, threshold, rates.tolerated, kHorizon) <= rates.false_alarms;
  };
  while (!keeps(high) && high < gain_ * 64) low = high, high *= 2;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (keeps(middle) ? high : low) = middle;
  }
  threshold_ = high;
}

bool WrongAccepts::Add(bool wrong) {
  if (wrong)
    level_ += gain_;
  else if (level_ > 0)
    --level_;
  if (level_ < threshold_) return false;
  level_ = 0;
  return true;
}

AuditCounters::AuditCounters(const std::string& scorer)
    : accept_pass(*this, Cell(scorer, "accept", "pass")),
      accept_fail(*this, Cell(scorer, "accept", "fail")),
      reject_pass(*this, Cell(scorer, "reject", "pass")),
      reject_fail(*this, Cell(scorer, "reject", "fail")),
      alarms(*this, {.key = "audit_" + scorer + "_alarms",
                     .metric = "tidemill_audit_alarms_total",
                     .help = "Times a scorer accepted too many wrong answers",
                     .labels = {{"scorer", scorer}}}),
      distrusted(*this, {.key = "audit_" + scorer + "_distrusted",
                         .metric = "tidemill_audit_distrusted",
                         .help = "1: execution decides instead of the scorer",
                         .kind = Counter::Kind::kLevel,
                         .labels = {{"scorer", scorer}}}),
      level(*this, {.key = "audit_" + scorer + "_level",
                    .metric = "tidemill_audit_level",
                    .help = "The sequential test, in percent of its alarm threshold",
                    .kind = Counter::Kind::kLevel,
                    .labels = {{"scorer", scorer}}}),
      bound(*this, {.key = "audit_" + scorer + "_bound_millionths",
                    .metric = "tidemill_audit_bound",
                    .help = "Share of right answers among those accepted that is tolerated",
                    .kind = Counter::Kind::kLevel,
                    .labels = {{"scorer", scorer}},
                    .scale = 1e-6}) {}

Audit::Audit(std::string scorer, const AuditConfig& config, uint64_t seed)
    : scorer_(std::move(scorer)),
      config_(config),
      seed_(MixHash(seed, StableHash(scorer_))),
      trusts_again_(std::find(config.trust.begin(), config.trust.end(), scorer_) !=
                    config.trust.end()),
      counters_(std::make_unique<AuditCounters>(scorer_)) {
  counters_->bound = static_cast<uint64_t>(std::llround(1e6 * (1 - config.false_accepts)));
}

bool Audit::Draws(const v1::TrajectoryId& id) const {
  if (config_.share <= 0) return false;
  Random random(MixHash(MixHash(seed_, StableHash(id.task())), MixHash(id.group(), id.member())));
  return random.Chance(config_.share);
}

bool Audit::Add(bool accepted, bool passed) {
  if (!accepted) {
    ++(passed ? counters_->reject_pass : counters_->reject_fail);
    return false;
  }
  ++(passed ? counters_->accept_pass : counters_->accept_fail);
  if (!watch_)
    watch_.emplace(
        WrongAccepts::Rates{config_.false_accepts, config_.alarm_at, config_.false_alarms});
  const bool alarm = watch_->Add(!passed);
  counters_->level = alarm ? 100 : uint64_t{100} * watch_->level() / watch_->threshold();
  if (!alarm || !trusted()) return false;
  ++counters_->alarms;
  ++rise_;
  counters_->distrusted = 1;
  return true;
}

void Audit::LearnRise(uint32_t rise) {
  // Of what was there before this process, a person may say that it is settled.
  if (!learned_ && trusts_again_) trusted_rise_ = rise;
  learned_ = true;
  rise_ = std::max(rise_, rise);
  counters_->distrusted = trusted() ? 0 : 1;
}

std::string Audit::Text() const {
  const uint64_t wrong = counters_->accept_fail, right = counters_->accept_pass;
  return std::to_string(wrong) + " of " + std::to_string(wrong + right) +
         " audited accepts were wrong";
}

}  // namespace tidemill
