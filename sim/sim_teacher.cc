#include "sim/sim_teacher.h"

namespace tidemill::sim {
namespace {

// Away at the same hours in every run that has it.
bool TeacherIsAway(Time now) {
  const auto second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch());
  return second.count() % 16 >= 11 && second.count() < 60;
}

}  // namespace

void AddSimTeacher(RunConfig& config) {
  config.teacher.model = "sim";
  config.teacher.concurrency = 8;
  config.teacher.retries = 3;
  config.learner.options = {"distill_coefficient=0.5"};
}

void SimTeacher::Submit(TeacherCall call) {
  Random& random = world_.random();
  const double ms = random.Chance(0.03) ? 2000 + random.Uniform() * 9000 : random.LogNormal(60, 1);
  TeacherDone done;
  done.tag = call.tag;
  const bool away = TeacherIsAway(world_.clock().Now()) || random.Chance(0.1);
  for (const TokenSpan& span : call.spans) {
    for (size_t i = span.begin; i < span.begin + span.tokens; ++i) {
      const float score = SimTeacherScore(static_cast<uint32_t>(call.ids[i]));
      done.scores.logprobs.push_back(away ? 0.0f : score);
      done.scores.known.push_back(1);
    }
  }
  if (away) world_.Fault("teacher away");
  if (away && !failure_is_a_score_) done.status = Unavailable("the simulated teacher is away");
  world_.After(std::chrono::microseconds(static_cast<int64_t>(ms * 1000)), process_,
               [this, done = std::move(done)] { events_.Post(done); });
}

}  // namespace tidemill::sim
