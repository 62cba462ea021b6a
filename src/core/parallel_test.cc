#include "core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace tidemill {
namespace {

TEST(InParallel, DoesEveryPieceOnceWhateverTheNumberOfThreads) {
  for (const int threads : {-1, 0, 1, 2, 7, 100}) {
    std::vector<std::atomic<int>> done(23);
    ASSERT_TRUE(InParallel(done.size(), threads, [&](size_t piece) {
                  ++done[piece];
                  return Ok();
                }).ok());
    for (const auto& count : done) EXPECT_EQ(count, 1) << threads << " threads";
  }
  EXPECT_TRUE(InParallel(0, 4, [](size_t) { return Internal("there is nothing to do"); }).ok());
}

TEST(InParallel, ReturnsTheFailureAndBeginsNothingNewAfterIt) {
  std::atomic<int> begun{0};
  const Status alone = InParallel(100, 1, [&](size_t piece) -> Status {
    ++begun;
    return piece == 3 ? Invalid("piece 3") : Ok();
  });
  EXPECT_EQ(alone.message(), "piece 3");
  EXPECT_EQ(begun, 4);
  const Status every = InParallel(
      100, 4, [](size_t piece) -> Status { return Invalid("piece " + std::to_string(piece)); });
  EXPECT_EQ(every.message(), "piece 0");
}

}  // namespace
}  // namespace tidemill
