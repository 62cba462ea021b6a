#include "sim/sim_judge.h"

namespace tidemill::sim {

JudgeConfig SimJudgeKeys(bool compares) {
  JudgeConfig keys;
  if (compares) keys.task = "pairwise", keys.pairs = 2;
  keys.name = "sim";
  keys.endpoint = "http://sim";
  keys.votes = 3;
  keys.aggregate = "mean";
  keys.concurrency = 6;
  keys.retries = 2;
  keys.timeout = std::chrono::seconds(4);
  keys.patience = std::chrono::seconds(15);
  keys.cache = 64;
  return keys;
}

void SimJudge::Submit(JudgeCall call) {
  Random& random = world_.random();
  const double ms = random.Chance(0.02) ? 3000 + random.Uniform() * 9000 : random.LogNormal(80, 1);
  const Time now = world_.clock().Now();
  const bool away = now >= faults_.away_from && now < faults_.away_until;
  JudgeDone done;
  done.tag = call.tag;
  // Never 0: that is what a vote that failed must not turn into.
  done.reply.text =
      "{\"score\": " + std::to_string(0.25 * static_cast<double>(1 + random.Below(4))) + "}";
  if (call.prompt.user.find("Which of the two submissions") != std::string::npos)
    done.reply.text = "{\"verdict\": \"equal\"}";
  const bool nonsense = random.Chance(faults_.malformed);
  if (nonsense) done.reply.text = "I would say it is fine.";
  if (away || random.Chance(faults_.fail)) done.status = Unavailable("the simulated judge is away");
  if (!done.status.ok()) world_.Fault("judge away");
  if (nonsense) world_.Fault("judge not understood");
  if (faults_.failure_is_zero && (nonsense || !done.status.ok())) {
    done.status = Ok();
    done.reply.text = "{\"score\": 0}";
  }
  world_.After(std::chrono::microseconds(static_cast<int64_t>(ms * 1000)), process_,
               [this, done = std::move(done)] { events_.Post(done); });
}

}  // namespace tidemill::sim
