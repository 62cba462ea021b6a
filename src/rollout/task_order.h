// In which order tasks are issued: every epoch a new shuffle drawn from the seed, tasks weighted by
// tag. The position is a pair of numbers, so that a resumed run goes on with the next task.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

class TaskOrder {
 public:
  // A task's weight is the product of its tags' weights (1 for a tag not named): how often it
  // stands in an epoch on average. At least one task must have a weight above 0. Where there are no
  // tasks, Next must not be called.
  static Result<TaskOrder> Make(const std::vector<v1::Task>& tasks,
                                const std::map<std::string, double>& tag_weights, uint64_t seed);

  // The index of the next task; moves on.
  size_t Next();

  // Where Next() stands, as "epoch:position", and back. A cursor of another task set is kInvalid.
  std::string Cursor() const;
  Status Seek(const std::string& cursor);
  uint64_t epoch() const { return epoch_; }

 private:
  TaskOrder(std::vector<double> weights, uint64_t seed)
      : weights_(std::move(weights)), seed_(seed) {}
  void Shuffle();

  std::vector<double> weights_;
  uint64_t seed_;
  uint64_t epoch_ = 0;
  size_t position_ = 0;
  std::vector<uint32_t> order_;  // of this epoch
};

}  // namespace tidemill
