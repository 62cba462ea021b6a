#include "observe/message_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/topics.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

TEST(MessageJson, ShowsEveryKindOfFieldAndTextAsText) {
  v1::ToolRequest request;
  request.set_request_id("42.3");
  request.mutable_episode()->set_group(1ull << 60);
  v1::File* file = request.mutable_tree()->add_files();
  file->set_path("solution.c");
  file->set_content("int f(int a) {\n  return a;\n}\n");
  file->set_has_content(true);
  request.mutable_tree()->add_files()->set_content(std::string("\xff\x00\x01", 3));
  const auto json = MessageJson(request);
  EXPECT_EQ(json["request_id"], "42.3");
  EXPECT_EQ(json["episode"]["group"], 1ull << 60);
  EXPECT_EQ(json["tree"]["files"][0]["content"], "int f(int a) {\n  return a;\n}\n");
  EXPECT_EQ(json["tree"]["files"][0]["has_content"], true);
  EXPECT_EQ(json["tree"]["files"][1]["content"]["base64"], "/wAB");
  EXPECT_FALSE(json.contains("reply_to")) << "what was not said is not shown";
}

TEST(MessageJson, ShowsEnumsByName) {
  v1::GroupLease group;
  group.set_purpose(v1::PURPOSE_EVAL);
  EXPECT_EQ(MessageJson(group)["purpose"], "PURPOSE_EVAL");
}

TEST(MessageJson, ShowsMapsAsObjects) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "protobuf's headers then lay maps out otherwise than the library that is installed";
#endif
  v1::Heartbeat beat;
  (*beat.mutable_numbers())["retries"] = 3;
  EXPECT_EQ(MessageJson(beat)["numbers"]["retries"], 3);
}

TEST(DecodeMessage, KnowsWhatEveryTopicCarries) {
  for (const auto topic : {kGroupsTopic, kDispatchTopic, kTrajectoriesTopic, kBatchRequestsTopic,
                           kScoreTopic, kToolsCompileTopic, kToolsTestsTopic, kToolsLintTopic,
                           kToolsFilesTopic, kToolsCommandTopic, kToolsGradeTopic, kGivenUpTopic}) {
    EXPECT_TRUE(DecodeMessage(topic, "").ok()) << topic;
  }
  EXPECT_TRUE(DecodeMessage(ToolCancelTopic("worker-1"), "").ok());
  for (const char* loop : {"rollout", "reward", "replay", "learner"}) {
    EXPECT_TRUE(DecodeMessage(InboxTopic("worker-1", loop), "").ok()) << loop;
  }
  EXPECT_EQ(DecodeMessage("elsewhere", "").status().code(), Code::kNotFound);
}

TEST(DecodeMessage, SaysWhatBytesAreNot) {
  const auto wrong = DecodeMessage(kToolsCompileTopic, "\xff\xff\xff");
  EXPECT_EQ(wrong.status().code(), Code::kCorrupt);
  EXPECT_THAT(wrong.status().message(), HasSubstr("not a ToolRequest"));
}

}  // namespace
}  // namespace tidemill
