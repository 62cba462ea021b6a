// The id of a trajectory as a value: ordered, hashable and readable.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

namespace v1 {
class TrajectoryId;
}

// v1::TrajectoryId for maps and messages to people. Two attempts of one member differ.
struct TrajectoryKey {
  std::string task;
  uint64_t group = 0;
  uint32_t member = 0;
  uint32_t attempt = 0;

  static TrajectoryKey From(const v1::TrajectoryId& id);
  v1::TrajectoryId ToProto() const;

  // "task/group/member#attempt", for example "sum-two/17/3#1".
  std::string ToString() const;
  // The inverse of ToString(); a task's own '/' and '#' are no obstacle.
  static Result<TrajectoryKey> Parse(std::string_view text);

  friend bool operator==(const TrajectoryKey&, const TrajectoryKey&) = default;
  // By task, group, member, attempt.
  friend std::strong_ordering operator<=>(const TrajectoryKey&, const TrajectoryKey&) = default;
};

}  // namespace tidemill

template <>
struct std::hash<tidemill::TrajectoryKey> {
  size_t operator()(const tidemill::TrajectoryKey& key) const;
};
