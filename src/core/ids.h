// The id of a trajectory as a value: comparable and readable.
#pragma once

#include <cstdint>
#include <string>

namespace tidemill {

namespace v1 {
class TrajectoryId;
}

// v1::TrajectoryId for messages to people. Two attempts of one member differ.
struct TrajectoryKey {
  std::string task;
  uint64_t group = 0;
  uint32_t member = 0;
  uint32_t attempt = 0;

  static TrajectoryKey From(const v1::TrajectoryId& id);

  // "task/group/member#attempt", for example "sum-two/17/3#1".
  std::string ToString() const;

  friend bool operator==(const TrajectoryKey&, const TrajectoryKey&) = default;
};

}  // namespace tidemill
