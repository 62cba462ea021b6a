#include "live/feedback.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

std::string Complaint(const std::string& body) {
  const auto parsed = ParseFeedback(body, "");
  return parsed.ok() ? "" : parsed.status().message();
}

TEST(Feedback, AScoreAThumbAnExitCodeAndTestsAreScores) {
  EXPECT_EQ(ParseFeedback(R"({"id":"chatcmpl-abc","score":-0.5})", "")->score, -0.5);
  EXPECT_EQ(ParseFeedback(R"({"id":"chatcmpl-abc","thumb":"up"})", "")->score, 1);
  EXPECT_EQ(ParseFeedback(R"({"id":"chatcmpl-abc","thumb":"down"})", "")->score, -1);
  const auto exit = ParseFeedback(R"({"session":"x","exit_code":2})", "");
  EXPECT_EQ(exit->score, -1);
  EXPECT_EQ(exit->source, "program");
  const auto tests = ParseFeedback(R"({"session":"x","tests":{"passed":3,"total":4}})", "");
  EXPECT_EQ(tests->score, 0.5);
  EXPECT_EQ(tests->source, "program");
}

TEST(Feedback, EveryApisIdNamesTheSameRequest) {
  for (const char* id : {"chatcmpl-4f", "cmpl-4f", "resp_4f", "msg_4f", "req_4f", "4f"}) {
    EXPECT_EQ(ParseFeedback(R"({"score":0,"id":")" + std::string(id) + "\"}", "")->request_id,
              "req_4f");
  }
}

TEST(Feedback, TheSessionMayComeFromTheUrl) {
  EXPECT_EQ(ParseFeedback(R"({"score":0})", "of the url")->session, "of the url");
  EXPECT_EQ(ParseFeedback(R"({"score":0,"session":"of the body"})", "of the url")->session,
            "of the body");
}

TEST(Feedback, WhatIsWrongIsNamed) {
  EXPECT_EQ(Complaint(R"({"id":"x","score":2})"), "\"score\" must be a number from -1 to 1, got 2");
  EXPECT_EQ(Complaint(R"({"id":"x","thumb":"sideways"})"),
            "\"thumb\" must be \"up\" or \"down\", got \"sideways\"");
  EXPECT_NE(Complaint(R"({"id":"x"})").find("exactly one of"), std::string::npos);
  EXPECT_NE(Complaint(R"({"id":"x","score":1,"thumb":"up"})").find("got 2"), std::string::npos);
  EXPECT_NE(Complaint(R"({"score":1})").find("both are missing"), std::string::npos);
  EXPECT_NE(Complaint(R"({"id":"x","sccore":1})").find("unknown field \"sccore\""),
            std::string::npos);
  EXPECT_NE(Complaint(R"({"session":"x","score":1,"span":[0,4]})").find("needs \"id\""),
            std::string::npos);
  EXPECT_NE(Complaint(R"({"id":"x","score":1,"span":[4,4]})").find("FROM below TO"),
            std::string::npos);
  EXPECT_NE(Complaint(R"({"id":"x","tests":{"passed":5,"total":4}})").find("N <= M"),
            std::string::npos);
  EXPECT_NE(Complaint(R"({"id":"x","score":1,"source":"oracle"})").find("\"program\""),
            std::string::npos);
  EXPECT_NE(Complaint("[]").find("JSON object"), std::string::npos);
  EXPECT_FALSE(Complaint("{").empty());
  EXPECT_FALSE(Complaint(std::string(70'000, ' ')).empty());
}

}  // namespace
}  // namespace tidemill
