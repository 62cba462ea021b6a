// Watches whether a run teaches anything: warns while it does not, ends it when it cannot, and says
// at the end why it did not.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "run/run_snapshot.h"
#include "store/run_reader.h"

namespace tidemill {

// Belongs to one thread.
class LessonWatch {
 public:
  // `earlier`: the totals that a resumed run begins with. They excuse nothing of what comes now.
  LessonWatch(uint32_t batch_episodes, bool train, const RunSnapshot& earlier = {})
      : batch_(batch_episodes),
        train_(train),
        scored_before_(earlier["scored"]),
        unscored_before_(earlier["unscored"]) {}

  // Called about once a second with the run as it is. A warning for people; empty: none. Each
  // warning takes twice as many fruitless episodes as the one before, until a step comes.
  std::string Look(const RunSnapshot& now);

  // So many episodes could not be scored, and not a single one could: going on is of no use.
  bool Hopeless(const RunSnapshot& now) const;

 private:
  const uint64_t batch_;
  const bool train_;
  const uint64_t scored_before_, unscored_before_;
  uint64_t steps_seen_ = 0;
  uint64_t from_ = 0;     // episodes finished when the last step, or warning, came
  uint64_t batches_ = 8;  // worth of episodes without a step that are remarkable
};

// What a run was to do.
struct Lesson {
  bool steps = false;     // at least one step
  bool tokens = false;    // on tokens that the model wrote
  RunCounts before = {};  // what a resumed run had when it went on: it counts for nothing
  uint64_t drawn_before = 0;
};
// kUnavailable: no episode was scored, no agent got an answer of the model, or the run did not do
// what it was to; why, in one sentence. `last` is what was counted since it began or went on.
Status CheckTaught(const RunCounts& all, const TokenUse& tokens, const RunSnapshot& last,
                   const Lesson& lesson);

}  // namespace tidemill
