#include "core/ids.h"

#include <gtest/gtest.h>

#include <unordered_set>

#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

TEST(TrajectoryKey, ReadsBackWhatItWrote) {
  for (const char* task : {"sum", "a/b", "c#1", "with space/9/9#9", "/"}) {
    const TrajectoryKey key{task, UINT64_MAX, 3, 1};
    EXPECT_EQ(TrajectoryKey::Parse(key.ToString()).value(), key) << key.ToString();
    EXPECT_EQ(TrajectoryKey::From(key.ToProto()), key);
  }
  EXPECT_EQ((TrajectoryKey{"sum", 17, 3, 1}).ToString(), "sum/17/3#1");
}

TEST(TrajectoryKey, RefusesWhatIsNotOne) {
  for (const char* text :
       {"", "sum", "sum/1", "sum/1/2", "/1/2#3", "sum/1/2#", "sum/1/2#x", "sum/-1/2#3",
        "sum/1/ 2#3", "sum/1/2#4294967296", "sum/18446744073709551616/2#3"}) {
    EXPECT_EQ(TrajectoryKey::Parse(text).status().code(), Code::kInvalid) << text;
  }
}

TEST(TrajectoryKey, OrdersByTaskGroupMemberAttempt) {
  EXPECT_LT((TrajectoryKey{"a", 9, 9, 9}), (TrajectoryKey{"b", 0, 0, 0}));
  EXPECT_LT((TrajectoryKey{"a", 2, 9, 9}), (TrajectoryKey{"a", 10, 0, 0}));
  EXPECT_LT((TrajectoryKey{"a", 1, 1, 1}), (TrajectoryKey{"a", 1, 1, 2}));
}

TEST(TrajectoryKey, EveryPartChangesTheHash) {
  std::unordered_set<size_t> hashes;
  for (const TrajectoryKey& key :
       {TrajectoryKey{"a", 1, 1, 1}, TrajectoryKey{"b", 1, 1, 1}, TrajectoryKey{"a", 2, 1, 1},
        TrajectoryKey{"a", 1, 2, 1}, TrajectoryKey{"a", 1, 1, 2}}) {
    hashes.insert(std::hash<TrajectoryKey>()(key));
  }
  EXPECT_EQ(hashes.size(), 5u);
}

}  // namespace
}  // namespace tidemill
