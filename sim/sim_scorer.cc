#include "sim/sim_scorer.h"

namespace tidemill::sim {

void SimScorer::Submit(const std::string&, std::string, uint64_t tag) {
  Random& random = world_.random();
  const double ms = random.Chance(0.02) ? 1000 + random.Uniform() * 6000 : random.LogNormal(30, 1);
  const Time now = world_.clock().Now();
  const bool away = now >= faults_.away_from && now < faults_.away_until;
  ScorerDone done;
  done.tag = tag;
  done.answer.has_score = true;
  done.answer.version = now >= faults_.rises_at ? 2 : 1;
  // Never 0: that is what a scorer that cannot be reached must not turn into.
  done.answer.score = 0.25 * static_cast<double>(1 + random.Below(4));
  if (away || random.Chance(faults_.fail)) {
    world_.Fault("scorer away");
    if (faults_.failure_is_zero)
      done.answer.score = 0;
    else
      done.status = Unavailable("the simulated scorer is away");
  }
  world_.After(std::chrono::microseconds(static_cast<int64_t>(ms * 1000)), process_,
               [this, done = std::move(done)] { events_.Post(done); });
}

}  // namespace tidemill::sim
