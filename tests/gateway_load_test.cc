// Many streams and requests through the whole gateway, on a real engine, while weights are swapped.
#include <gtest/gtest.h>

#include "bench/gateway_bench.h"

namespace tidemill {
namespace {

TEST(GatewayLoad, AThousandStreamsAndTenThousandRequestsSeeNothingOfAHundredSwaps) {
  const auto report = RunGatewayLoad({.streams = 1000, .requests = 10'000, .swaps = 100});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->broken, 0u) << report->broken_example;
  EXPECT_EQ(report->complete, 10'000u);
  EXPECT_GE(report->open_most, 1000u);
  EXPECT_GE(report->swaps, 100u);
  EXPECT_GT(report->gaps.at_swaps, 0u);
  EXPECT_TRUE(report->Misses().empty());
}

}  // namespace
}  // namespace tidemill
