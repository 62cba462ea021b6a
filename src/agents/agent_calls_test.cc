#include "agents/agent_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::Tree FileTree(const std::string& path, const std::string& hash) {
  v1::Tree tree;
  v1::File& file = *tree.add_files();
  file.set_path(path), file.set_hash(hash);
  return tree;
}

class AgentCallsTest : public testing::Test {
 protected:
  AgentCallsTest() {
    auto group = std::make_shared<EpisodeGroup>();
    group->lease.set_max_turns(2);
    group->worker = "w";
    group_ = group;
    limits_.calls_per_turn = 3;
    limits_.background["run_tests"] = {.use = BackgroundUse::kAllowed};
    limits_.background["format"] = {.use = BackgroundUse::kAlways, .keeps_files = true};
  }
  AgentCalls Calls() const {
    return AgentCalls(group_, 0, "e", limits_,
                      {"compile", "run_tests", "format", "wait", "write_file"});
  }
  // Until the request is made.
  uint64_t Ask(AgentCalls& calls, const std::string& tool, const std::string& arguments = "{}") {
    actions_ = {};
    const uint64_t call = calls.Begin(tool, arguments, now_, actions_);
    if (!actions_.reads.empty()) calls.OnFiles(call, FileTree("a", "1"), now_, actions_);
    return call;
  }
  void Result(AgentCalls& calls, const std::string& id, v1::Outcome outcome, const v1::Tree& tree) {
    v1::ToolResult result;
    result.set_request_id(id);
    result.set_outcome(outcome);
    result.set_text("text of " + id);
    *result.mutable_tree() = tree;
    actions_ = {};
    calls.OnResult(result, ++now_, actions_);
  }

  std::shared_ptr<const EpisodeGroup> group_;
  EpisodeLimits limits_;
  AgentCallActions actions_;
  int64_t now_ = 1000;
};

TEST_F(AgentCallsTest, ATriedCallKeepsItsPlaceAndGetsAnotherId) {
  AgentCalls calls = Calls();
  const uint64_t call = Ask(calls, "compile");
  ASSERT_EQ(actions_.calls.size(), 1u);
  const std::string first = actions_.calls[0].request.request_id();
  Result(calls, first, v1::OUTCOME_UNAVAILABLE, {});
  ASSERT_EQ(actions_.calls.size(), 1u);
  EXPECT_GT(actions_.calls[0].delay.count(), 0);
  const std::string second = actions_.calls[0].request.request_id();
  EXPECT_NE(first, second);
  Result(calls, first, v1::OUTCOME_OK, {});  // of the try that was given up
  EXPECT_TRUE(actions_.answers.empty());
  Result(calls, second, v1::OUTCOME_OK, {});
  ASSERT_EQ(actions_.answers.size(), 1u);
  EXPECT_EQ(actions_.answers[0].call, call);
  EXPECT_EQ(calls.Record().at(0).retries(), 1u);
  Result(calls, second, v1::OUTCOME_OK, {});  // a second delivery
  EXPECT_TRUE(actions_.answers.empty());
}

TEST_F(AgentCallsTest, WhatAToolChangedIsPutIntoTheWorkspaceBeforeTheAnswer) {
  AgentCalls calls = Calls();
  const uint64_t call = Ask(calls, "write_file");
  Result(calls, actions_.calls[0].request.request_id(), v1::OUTCOME_OK, FileTree("a", "2"));
  EXPECT_TRUE(actions_.answers.empty());
  ASSERT_EQ(actions_.changes.size(), 1u);
  actions_ = {};
  calls.OnChanged(call, {"a", "b"}, ++now_, actions_);
  ASSERT_EQ(actions_.answers.size(), 1u);
  EXPECT_THAT(actions_.answers[0].texts[0], HasSubstr("changed meanwhile: a, b"));
}

TEST_F(AgentCallsTest, ABackgroundCallsFilesAreChangedOnceAndItsResultComesWithTheNextAnswer) {
  AgentCalls calls = Calls();
  (void)Ask(calls, "format");
  ASSERT_EQ(actions_.answers.size(), 1u);
  EXPECT_THAT(actions_.answers[0].texts, ElementsAre(HasSubstr("b1: format runs")));
  const std::string id = actions_.calls[0].request.request_id();
  Result(calls, id, v1::OUTCOME_OK, FileTree("a", "2"));
  ASSERT_EQ(actions_.changes.size(), 1u);
  const uint64_t change = actions_.changes[0].call;
  actions_ = {};
  const uint64_t wait = calls.Begin("wait", "{}", now_, actions_);
  EXPECT_TRUE(actions_.answers.empty());
  calls.OnChanged(change, {}, ++now_, actions_);
  ASSERT_EQ(actions_.answers.size(), 1u);
  EXPECT_EQ(actions_.answers[0].call, wait);
  EXPECT_THAT(actions_.answers[0].texts,
              ElementsAre(testing::_, HasSubstr("b1 (format): text of " + id)));
  actions_ = {};
  calls.OnChanged(change, {}, ++now_, actions_);
  EXPECT_TRUE(actions_.answers.empty());
  EXPECT_TRUE(calls.idle());
}

TEST_F(AgentCallsTest, CallsAreBoundedAtOnceAndInAll) {
  AgentCalls calls = Calls();
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    (void)Ask(calls, "compile");
    ids.push_back(actions_.calls.at(0).request.request_id());
  }
  (void)Ask(calls, "compile");
  EXPECT_THAT(actions_.answers.at(0).texts[0], HasSubstr("at most 3 calls at once"));
  for (const std::string& id : ids) Result(calls, id, v1::OUTCOME_OK, {});
  for (int i = 0; i < 3; ++i) {
    (void)Ask(calls, "compile");
    Result(calls, actions_.calls.at(0).request.request_id(), v1::OUTCOME_OK, {});
  }
  for (int i = 0; i < 10'000; ++i) (void)Ask(calls, "compile");
  EXPECT_THAT(actions_.answers.at(0).texts[0], HasSubstr("has made its 6 tool calls"));
  EXPECT_EQ(calls.Record().size(), 6u);
}

TEST_F(AgentCallsTest, TheEndCancelsWhatRunsOrAwaitsBackgroundCalls) {
  for (const bool awaits : {false, true}) {
    AgentCalls calls = Calls();
    (void)Ask(calls, "compile");
    const std::string compiling = actions_.calls[0].request.request_id();
    (void)Ask(calls, "run_tests", R"({"background":true})");
    const std::string testing_id = actions_.calls[0].request.request_id();
    EXPECT_EQ(actions_.calls[0].request.arguments_json(), "{}");
    actions_ = {};
    calls.End(awaits, ++now_, actions_);
    EXPECT_EQ(actions_.cancels.size(), awaits ? 1u : 2u);
    EXPECT_EQ(calls.idle(), !awaits);
    EXPECT_EQ(calls.WaitsFor(testing_id), awaits);
    EXPECT_FALSE(calls.WaitsFor(compiling));
    Result(calls, testing_id, v1::OUTCOME_OK, {});
    EXPECT_TRUE(calls.idle());
    EXPECT_EQ(calls.Record().at(1).cancelled(), !awaits);
    EXPECT_TRUE(calls.Record().at(0).cancelled());
  }
}

TEST_F(AgentCallsTest, AWaitEndsWithItsTime) {
  AgentCalls calls = Calls();
  (void)Ask(calls, "run_tests", R"({"background":true})");
  actions_ = {};
  (void)calls.Begin("wait", R"({"timeout_s":2})", now_, actions_);
  EXPECT_TRUE(actions_.answers.empty());
  EXPECT_EQ(calls.wakes_ms(now_), now_ + 2000);
  calls.OnTime(now_ + 1999, actions_);
  EXPECT_TRUE(actions_.answers.empty());
  calls.OnTime(now_ + 2000, actions_);
  EXPECT_THAT(actions_.answers.at(0).texts[0], HasSubstr("the time is over"));
}

}  // namespace
}  // namespace tidemill
