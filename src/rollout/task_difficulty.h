// How hard each task is for the policy as it is now, and whether it is worth attempting: a task
// that is always or never solved teaches nothing, one that is solved half of the time the most.
// Belongs to one loop; not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"

namespace tidemill {

class TaskDifficulty {
 public:
  // `floor`: the chance of a task that seems to teach nothing, so that it is noticed when that
  // changes. 1: every task is always worth it.
  TaskDifficulty(size_t tasks, double floor, uint64_t seed)
      : rates_(tasks, kUnknown), floor_(floor), random_(Random(seed).Split("difficulty")) {}

  // The outcome of a group.
  void Heard(size_t task, uint32_t solved, uint32_t scored) {
    if (scored == 0 || task >= rates_.size()) return;
    const double rate = static_cast<double>(solved) / scored;
    double& known = rates_[task];
    known = known == kUnknown ? rate
                              : (known + rate) / 2;  // the policy changes: the newest counts most
  }

  // The chance with which a task is issued when its turn comes: 4 p (1 - p), not below the floor.
  double Chance(size_t task) const {
    const double p = rates_[task];
    if (p == kUnknown) return 1;
    const double worth = 4 * p * (1 - p);
    return worth > floor_ ? worth : floor_;
  }
  bool Worth(size_t task) { return floor_ >= 1 || random_.Chance(Chance(task)); }

 private:
  static constexpr double kUnknown = -1;
  std::vector<double> rates_;
  double floor_;
  Random random_;
};

}  // namespace tidemill
