#include "core/ids.h"

#include <gtest/gtest.h>

#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

TEST(TrajectoryKey, EveryPartOfTheIdIsPartOfItAndOfItsText) {
  v1::TrajectoryId id;
  id.set_task("sum"), id.set_group(17), id.set_member(3), id.set_attempt(1);
  const TrajectoryKey key = TrajectoryKey::From(id);
  EXPECT_EQ(key, (TrajectoryKey{"sum", 17, 3, 1}));
  EXPECT_EQ(key.ToString(), "sum/17/3#1");
  for (const TrajectoryKey& other :
       {TrajectoryKey{"b", 17, 3, 1}, TrajectoryKey{"sum", 18, 3, 1},
        TrajectoryKey{"sum", 17, 4, 1}, TrajectoryKey{"sum", 17, 3, 2}}) {
    EXPECT_NE(key, other);
    EXPECT_NE(key.ToString(), other.ToString());
  }
}

}  // namespace
}  // namespace tidemill
