#include "core/ids.h"

#include "proto/tidemill.pb.h"

namespace tidemill {

TrajectoryKey TrajectoryKey::From(const v1::TrajectoryId& id) {
  return {id.task(), id.group(), id.member(), id.attempt()};
}

std::string TrajectoryKey::ToString() const {
  return task + '/' + std::to_string(group) + '/' + std::to_string(member) + '#' +
         std::to_string(attempt);
}

}  // namespace tidemill
