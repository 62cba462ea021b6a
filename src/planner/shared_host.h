// A machine, or a GPU, that several ports want at once. While more is wanted than there is, all of
// them slow down by the same factor: its own time passes slower.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "planner/plan_world.h"

namespace tidemill {

class SharedHost {
 public:
  // `capacity` in cores, or in work that a GPU does at once; 0: nobody has to share.
  SharedHost(PlanWorld& world, double capacity) : world_(world), capacity_(capacity) {}

  // What is wanted changes by `width`.
  void Load(double width);
  // After so many seconds of its own time.
  void After(double seconds, std::function<void()> what);
  double Now();
  // Seconds of the world in which all of it was wanted; in part where a part was.
  double BusySeconds();

 private:
  struct Job {
    double at = 0;
    uint64_t number = 0;
    std::function<void()> what{};
    bool operator<(const Job& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  void Pass();
  // Of its own time in a second.
  double Speed() const { return capacity_ > 0 && wanted_ > capacity_ ? capacity_ / wanted_ : 1; }
  void Plan();
  void Happen();

  PlanWorld& world_;
  const double capacity_;
  double wanted_ = 0;
  double busy_s_ = 0;
  double now_ = 0, world_now_ = 0;  // when they were last compared
  uint64_t made_ = 0, planned_ = 0;
  std::priority_queue<Job> jobs_;
};

}  // namespace tidemill
