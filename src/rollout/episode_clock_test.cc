#include "rollout/episode_clock.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace tidemill {
namespace {

TEST(EpisodeClock, GeneratingHidesToolsAndToolsHideWaiting) {
  EpisodeClock clock;
  clock.Turn(1000, 100, 1500);  // waits to 1100
  clock.Call(1400, 200, 1900);  // waits to 1600
  clock.Call(1400, 0, 1450);    // all of it while the turn is drawn
  clock.Turn(2000, 50, 2300);
  const v1::EpisodeTime time = clock.Split();
  EXPECT_EQ(time.generating_ms(), 400 + 250);
  EXPECT_EQ(time.tool_ms(), 300);
  EXPECT_EQ(time.place_ms(), 100 + 100 + 50) << "from 1900 to 2000 nothing went on";
}

TEST(EpisodeClock, AClockThatWasSetBackAndWaitingThatIsTooLongCountNothingTwice) {
  EpisodeClock clock;
  clock.Call(5000, 0, 4000);
  clock.Call(1000, 9999, 1200);
  const v1::EpisodeTime time = clock.Split();
  EXPECT_EQ(time.tool_ms(), 0);
  EXPECT_EQ(time.place_ms(), 200);
  EXPECT_EQ(EpisodeClock().Split().generating_ms(), 0);
}

// Against asking of each millisecond what went on in it.
TEST(EpisodeClock, TheSumsAreThoseOfEveryMillisecond) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    EpisodeClock clock;
    enum { kNothing, kPlace, kTool, kGenerating };
    std::vector<int> at(400, kNothing);
    for (int i = 0; i < 12; ++i) {
      const auto from = static_cast<int64_t>(random.Below(300));
      const auto length = static_cast<int64_t>(random.Below(100));
      const auto waited = static_cast<int64_t>(random.Below(60));
      const bool turn = random.Chance(0.4);
      turn ? clock.Turn(from, static_cast<double>(waited), from + length)
           : clock.Call(from, static_cast<double>(waited), from + length);
      for (int64_t ms = from; ms < from + length; ++ms) {
        const int doing = ms < from + waited ? kPlace : turn ? kGenerating : kTool;
        at[static_cast<size_t>(ms)] = std::max(at[static_cast<size_t>(ms)], doing);
      }
    }
    const v1::EpisodeTime time = clock.Split();
    EXPECT_EQ(time.generating_ms(), std::count(at.begin(), at.end(), kGenerating)) << seed;
    EXPECT_EQ(time.tool_ms(), std::count(at.begin(), at.end(), kTool)) << seed;
    EXPECT_EQ(time.place_ms(), std::count(at.begin(), at.end(), kPlace)) << seed;
  }
}

}  // namespace
}  // namespace tidemill
