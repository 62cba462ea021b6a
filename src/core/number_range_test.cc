#include "core/number_range.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(NumberRange, RangesOfOneReceiverDoNotMeet) {
  const std::pair<NumberRange, NumberRange> neighbours[] = {
      {kRolloutSequences, kGatewaySequences},
      {kClientSessions, kEpisodeSessions},
      {kClientTickets, kEpisodeTickets},
  };
  for (const auto& [low, high] : neighbours) {
    EXPECT_FALSE(low.Has(0)) << "0 stands for none";
    EXPECT_TRUE(low.Has(low.last) && high.Has(high.first));
    EXPECT_FALSE(low.Has(high.first)) << high.name;
    EXPECT_FALSE(high.Has(low.last)) << low.name;
  }
}

TEST(NumberSource, GivesEachNumberOnceAndNoneBeyondItsRange) {
  NumberSource source({"three", 5, 7}, 1);
  EXPECT_EQ(source.Take(), 5u);
  source.Taken(6);
  source.Taken(5);
  EXPECT_EQ(source.Take(), 7u);
  EXPECT_DEATH((void)source.Take(), "three are used up");
}

}  // namespace
}  // namespace tidemill
