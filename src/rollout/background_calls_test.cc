#include "rollout/background_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hash.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = BackgroundCalls::Job::State;

v1::Tree TreeOf(const std::vector<std::pair<std::string, std::string>>& files) {
  v1::Tree tree;
  for (const auto& [path, content] : files) {
    v1::File& file = *tree.add_files();
    file.set_path(path), file.set_content(content), file.set_has_content(true);
    file.set_hash(Sha256Hex(content));
  }
  return tree;
}

OpenCall CallOf(const std::string& id, int64_t asked_ms, const v1::Tree& tree = {}) {
  OpenCall call;
  call.request.set_request_id(id);
  call.request.set_tool("run_tests");
  *call.request.mutable_tree() = tree;
  call.asked_ms = asked_ms;
  return call;
}

v1::ToolResult ResultOf(const std::string& text, const std::optional<v1::Tree>& tree = {}) {
  v1::ToolResult result;
  result.set_outcome(v1::OUTCOME_OK);
  result.set_text(text);
  result.set_wall_ms(70);
  if (tree) *result.mutable_tree() = *tree;
  return result;
}

TEST(BackgroundCalls, AResultIsDeliveredOnceInTheOrderInWhichItCame) {
  BackgroundCalls calls({});
  calls.Start(CallOf("a", 100), false, 0, 0);
  calls.Start(CallOf("b", 100), false, 0, 1);
  EXPECT_EQ(calls.running(), 2u);
  calls.Finish(*calls.Of("b"), ResultOf("second"), 200);
  EXPECT_EQ(calls.Of("b"), nullptr) << "a second result is for nobody";
  calls.Finish(*calls.Of("a"), ResultOf("first"), 300);
  v1::Tree tree;
  const std::vector<DeliveredResult> delivered = calls.Deliver(tree);
  ASSERT_EQ(delivered.size(), 2u);
  EXPECT_EQ(delivered[0].handle, "b2");
  EXPECT_EQ(delivered[0].text, "second");
  EXPECT_EQ(delivered[1].handle, "b1");
  EXPECT_TRUE(calls.Deliver(tree).empty());
}

TEST(BackgroundCalls, ACancelledCallTakesNoResultAndItsRecordHasNone) {
  BackgroundCalls calls({});
  calls.Start(CallOf("a", 100), false, 0, 0);
  calls.Start(CallOf("b", 100), false, 0, 1);
  EXPECT_THAT(calls.Cancel({"b1", "b1"}), ElementsAre("a"));
  EXPECT_EQ(calls.Of("a"), nullptr);
  EXPECT_TRUE(calls.Cancel({"b1"}).empty());
  calls.Finish(*calls.Of("b"), ResultOf("done"), 180);
  EXPECT_TRUE(calls.CancelAll().empty()) << "what has finished stays";
  v1::Trajectory trajectory;
  trajectory.add_turns()->add_calls();
  trajectory.mutable_turns(0)->add_calls();
  calls.Record(trajectory);
  const v1::ToolCall& cancelled = trajectory.turns(0).calls(0);
  EXPECT_TRUE(cancelled.cancelled());
  EXPECT_EQ(cancelled.handle(), "b1");
  EXPECT_EQ(cancelled.run_ms(), 0);
  EXPECT_EQ(cancelled.answered_ms(), 0);
  EXPECT_EQ(cancelled.text(), "");
  const v1::ToolCall& finished = trajectory.turns(0).calls(1);
  EXPECT_FALSE(finished.cancelled());
  EXPECT_EQ(finished.wait_ms(), 80);
  EXPECT_EQ(finished.run_ms(), 70);
  EXPECT_EQ(finished.text(), "done");
}

TEST(BackgroundCalls, NoMoreRunAtOnceThanMay) {
  BackgroundCalls calls({.jobs = 2});
  calls.Start(CallOf("a", 0), false, 0, 0);
  EXPECT_TRUE(calls.Room(10).ok());
  calls.Start(CallOf("b", 0), false, 0, 1);
  EXPECT_THAT(calls.Room(10).message(), HasSubstr("2 calls run in the background already"));
  calls.Finish(*calls.Of("a"), ResultOf("x"), 20);
  EXPECT_TRUE(calls.Room(20).ok());
}

TEST(BackgroundCalls, AllOfThemTogetherHaveOneTime) {
  BackgroundCalls calls({.total = std::chrono::seconds(1)});
  calls.Start(CallOf("a", 1000), false, 0, 0);
  calls.Finish(*calls.Of("a"), ResultOf("x"), 1400);
  calls.Start(CallOf("b", 2000), false, 1, 0);
  calls.Start(CallOf("c", 2000), false, 1, 1);
  EXPECT_EQ(calls.expires_ms(2000), 2300) << "two use up what is left twice as fast";
  EXPECT_TRUE(calls.Expire(2299).empty());
  EXPECT_THAT(calls.Expire(2300), ElementsAre("b", "c"));
  EXPECT_EQ(calls.running(), 0u);
  EXPECT_EQ(calls.expires_ms(2300), std::nullopt);
  EXPECT_THAT(calls.Room(2300).message(), HasSubstr("have run for 1 s"));
  v1::Tree tree;
  const std::vector<DeliveredResult> delivered = calls.Deliver(tree);
  ASSERT_EQ(delivered.size(), 3u);
  EXPECT_THAT(delivered[1].text, HasSubstr("the most they may"));
}

TEST(BackgroundCalls, WhatIsHeldIsBounded) {
  BackgroundCalls calls({.held_bytes = 190});
  const v1::Tree before = TreeOf({{"a.c", "1"}});
  for (const char* id : {"a", "b", "c"}) calls.Start(CallOf(id, 0, before), true, 0, 0);
  calls.Finish(*calls.Of("a"), ResultOf(std::string(100, 'x')), 1);
  calls.Finish(*calls.Of("b"), ResultOf("ok", TreeOf({{"a.c", std::string(100, 'y')}})), 1);
  calls.Finish(*calls.Of("c"), ResultOf(std::string(100, 'z')), 1);
  v1::Tree tree = before;
  const std::vector<DeliveredResult> delivered = calls.Deliver(tree);
  ASSERT_EQ(delivered.size(), 3u);
  EXPECT_EQ(delivered[0].text, std::string(100, 'x'));
  EXPECT_THAT(delivered[1].text, HasSubstr("its files were dropped"));
  EXPECT_THAT(delivered[2].text, HasSubstr("its output was dropped"));
  EXPECT_EQ(tree.files(0).content(), "1");
  calls.Start(CallOf("d", 0, before), true, 0, 0);
  calls.Finish(*calls.Of("d"), ResultOf("ok", TreeOf({{"a.c", "2"}})), 1);
  (void)calls.Deliver(tree);
  EXPECT_EQ(tree.files(0).content(), "2") << "what was delivered leaves its room";
}

TEST(BackgroundCalls, FilesAreKeptWhereNothingTheyTouchChanged) {
  BackgroundCalls calls({});
  const v1::Tree before = TreeOf({{"a.c", "1"}, {"b.c", "1"}, {"gone.c", "1"}});
  calls.Start(CallOf("free", 0, before), true, 0, 0);
  calls.Start(CallOf("late", 0, before), true, 0, 1);
  calls.Start(CallOf("drops", 0, before), false, 0, 2);
  v1::Tree now = TreeOf({{"a.c", "1"}, {"b.c", "of the agent"}, {"gone.c", "1"}});
  calls.Finish(*calls.Of("free"), ResultOf("f", TreeOf({{"a.c", "2"}, {"b.c", "1"}})), 1);
  calls.Finish(*calls.Of("late"),
               ResultOf("l", TreeOf({{"a.c", "3"}, {"b.c", "3"}, {"new.c", "3"}})), 1);
  calls.Finish(*calls.Of("drops"), ResultOf("d", TreeOf({{"a.c", "4"}})), 1);
  const std::vector<DeliveredResult> delivered = calls.Deliver(now);
  EXPECT_EQ(delivered[0].text, "f");
  EXPECT_EQ(delivered[1].text, "l\nits files were not kept: changed meanwhile: a.c, b.c, gone.c");
  EXPECT_EQ(delivered[2].text, "d");
  ASSERT_EQ(now.files_size(), 2);
  EXPECT_EQ(now.files(0).content(), "2");
  EXPECT_EQ(now.files(1).content(), "of the agent");
}

TEST(BackgroundCalls, AWaitIsOverWhenWhatItNamesRunsNoMore) {
  BackgroundCalls calls({});
  EXPECT_TRUE(calls.Over({}, true)) << "nothing runs";
  calls.Start(CallOf("a", 0), false, 0, 0);
  calls.Start(CallOf("b", 0), false, 0, 1);
  EXPECT_FALSE(calls.Over({}, true));
  EXPECT_FALSE(calls.Over({"b1", "b2"}, true));
  calls.Finish(*calls.Of("a"), ResultOf("x"), 5000);
  EXPECT_TRUE(calls.Over({}, true));
  EXPECT_FALSE(calls.Over({}, false));
  EXPECT_TRUE(calls.Over({"b1", "b2"}, true));
  EXPECT_FALSE(calls.Over({"b1", "b2"}, false));
  EXPECT_FALSE(calls.Over({"b2"}, true));
  EXPECT_EQ(calls.Listing({}, 3999),
            "b1 (run_tests): finished, its result follows\nb2 (run_tests): runs, 3 s so far");
  calls.Cancel({"b2"});
  EXPECT_TRUE(calls.Over({"b1", "b2"}, false));
  EXPECT_EQ(calls.Listing({"b2"}, 0), "b2 (run_tests): cancelled");
  EXPECT_TRUE(calls.Check({"b1", "b2"}).ok());
  EXPECT_EQ(calls.Check({"b3"}).message(),
            "there is no \"b3\"; the last that was started is \"b2\"");
}

}  // namespace
}  // namespace tidemill
