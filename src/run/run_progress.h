// How far a run is, how fast it goes and how long it will take, from one snapshot after another.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "run/run_snapshot.h"

namespace tidemill {

// When a run ends: after so many steps, or so many minutes of this process (0: no limit).
struct RunGoal {
  uint64_t steps = 0;
  double minutes = 0;
};

// Belongs to one thread.
class RunProgress {
 public:
  explicit RunProgress(const RunGoal& goal) : goal_(goal) {}

  void Take(const RunSnapshot& now);

  // Of a count, per second: over the last half minute.
  double Rate(std::string_view key) const;
  // The time left by the limit that comes first; none while it is not known.
  std::optional<double> SecondsLeft() const;
  // From 0 to 1, by the limit that comes first.
  double Share() const;
  // "step 55/100, 12 min left"; where time ends the run its number of steps is left out. Without
  // steps to take: "evaluation".
  std::string Text() const;

 private:
  struct Known {
    double seconds;
    std::map<std::string, uint64_t, std::less<>> counts;
  };
  std::optional<double> LeftBySteps() const;
  std::optional<double> LeftByTime() const;
  bool EndsByTime() const;
  uint64_t steps() const;

  const RunGoal goal_;
  double began_ = -1;  // seconds of the first snapshot: what came before is an earlier process's
  std::deque<Known> window_;  // a snapshot a second; the oldest is half a minute old
  // Of this process: when its first step and its newest one were seen.
  uint64_t first_step_ = 0, last_step_ = 0;
  double first_at_ = 0, last_at_ = 0;
};

// A number with the digits that tell it from 0: "1234", "5.6", "0.03".
std::string ShortNumber(double number);
// "45 s", "12 min", "3 h 5 min", "2 d 4 h".
std::string TimeText(double seconds);

}  // namespace tidemill
