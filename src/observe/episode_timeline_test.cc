#include "observe/episode_timeline.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

v1::Turn TurnOf(int64_t from_ms, int64_t to_ms) {
  v1::Turn turn;
  turn.set_started_ms(from_ms), turn.set_finished_ms(to_ms);
  return turn;
}

TEST(EpisodeTimeline, HasALaneForTurnsAndForEachCall) {
  v1::Trajectory trajectory;
  trajectory.set_started_ms(10'000), trajectory.set_finished_ms(16'000);
  trajectory.mutable_time()->set_generating_ms(3000);
  trajectory.mutable_time()->set_tool_ms(2500);
  trajectory.mutable_time()->set_place_ms(500);
  v1::Turn& first = *trajectory.add_turns() = TurnOf(10'000, 12'000);
  v1::ToolCall& call = *first.add_calls();
  call.set_tool("run_tests"), call.set_handle("b1");
  call.set_asked_ms(11'000), call.set_queue_ms(500), call.set_answered_ms(15'000);
  v1::ToolCall& cancelled = *first.add_calls();
  cancelled.set_tool("lint"), cancelled.set_cancelled(true), cancelled.set_asked_ms(15'000);
  *trajectory.add_turns() = TurnOf(15'000, 16'000);
  EXPECT_EQ(TimelineText(trajectory),
            "  6.00 s: generating 3.00 s, waiting for tools 2.50 s, for a place 0.50 s\n"
            "  turns            ####################                              #########\n"
            "  b1 run_tests               -----===================================\n"
            "  lint                                                               xxxxxxxxx\n");
}

TEST(EpisodeTimeline, OldRecordsAndManyCallsAreShort) {
  v1::Trajectory trajectory;
  trajectory.set_started_ms(1), trajectory.set_finished_ms(2);
  EXPECT_EQ(TimelineText(trajectory), "");
  trajectory.mutable_time();
  v1::Turn& turn = *trajectory.add_turns();
  for (int i = 0; i < 40; ++i) turn.add_calls()->set_asked_ms(1);
  const std::string text = TimelineText(trajectory);
  EXPECT_NE(text.find("  and 28 calls more\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace tidemill
