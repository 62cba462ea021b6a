#include "live/live_report.h"

#include <gtest/gtest.h>

#include "testing/live_fixture.h"

namespace tidemill {
namespace {

TEST(LiveReport, AddsUpWhatSessionsGiveByAgent) {
  const ServedPolicy policy = TestPolicy(kTestTemplate);
  LiveWorld world(policy);
  std::map<std::string, std::string> headers = {{"x-session-id", "a"}, {"user-agent", "pi/1.0"}};
  WireJson messages = WireJson::array({UserMessage("hello")});
  messages.push_back(world.Say(world.Ask(RequestOf(messages), headers), "one"));
  messages.push_back(UserMessage("more"));
  TurnParams greedy;
  greedy.sampling.temperature = 0;
  world.Say(world.Ask(RequestOf(messages), headers), "two", greedy);
  headers = {{"x-session-id", "b"}, {"user-agent", "qwen/2"}, {"x-tidemill-session-end", "1"}};
  world.Say(world.Ask(RequestOf(messages), headers), "three");
  world.Step();
  LiveReport report;
  uint64_t sampled = 0;
  for (const StoredSession& stored : world.store.State().sessions) {
    const auto one = ReportSession(stored);
    ASSERT_TRUE(one.ok()) << one.status().message();
    report.Add(*one);
    for (const v1::SessionTurn& turn : stored.turns) sampled += turn.answer().ids_size();
  }
  EXPECT_EQ(report.open, 1u);
  EXPECT_EQ(report.closed, 1u);
  EXPECT_EQ(report.questions, 3u);
  EXPECT_EQ(report.all.sampled, sampled);
  EXPECT_EQ(report.tokens["trained"] + report.tokens["sampling"], sampled);
  EXPECT_EQ(report.agents.at("pi").turns, 2u);
  EXPECT_EQ(report.agents.at("qwen").trained, report.agents.at("qwen").sampled);
}

}  // namespace
}  // namespace tidemill
