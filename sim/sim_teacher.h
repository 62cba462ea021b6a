// A teacher that answers after a drawn time, fails at times and is away for a while. Its score of a
// token follows from the token, so that a loss can tell whether it got the teacher's.
#pragma once

#include "run/run_config.h"
#include "sim/world.h"
#include "teacher/teacher_port.h"

namespace tidemill::sim {

// In every fourth run.
inline bool WithTeacher(uint64_t seed) {
  return seed % 4 == 1;
}

// Its config: a mix of rewards and teacher.
void AddSimTeacher(RunConfig& config);

// Never what a token gets that was not scored.
inline float SimTeacherScore(uint32_t id) {
  return -0.25f * static_cast<float>(1 + id % 7);
}

class SimTeacher final : public TeacherPort {
 public:
  // `failure_is_a_score`: planted bug.
  SimTeacher(World& world, ProcessId process, bool failure_is_a_score)
      : world_(world),
        process_(process),
        failure_is_a_score_(failure_is_a_score),
        events_(100'000) {}

  void Submit(TeacherCall call) override;
  Mailbox<TeacherDone>& events() override { return events_; }

 private:
  World& world_;
  ProcessId process_;
  bool failure_is_a_score_;
  Mailbox<TeacherDone> events_;
};

}  // namespace tidemill::sim
