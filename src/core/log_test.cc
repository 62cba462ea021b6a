#include "core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace tidemill {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

class LogTest : public testing::Test {
 protected:
  void Use(LogLevel level, bool json) {
    InitLog({.level = level, .json = json, .stream = &stream_});
  }
  void TearDown() override { InitLog({}); }
  std::string Text() const { return stream_.str(); }
  // What was said once stays said, also when the test is repeated in one process.
  static std::string NewKey() {
    static int count = 0;
    return "log_test " + std::to_string(++count);
  }

  std::ostringstream stream_;
};

TEST_F(LogTest, ALineIsASentenceAndPairs) {
  Use(LogLevel::kInfo, false);
  LogInfo("weights published", {{"version", 3}, {"ms", 4.25}, {"path", "a b"}, {"whole", true}});
  EXPECT_THAT(Text(), EndsWith("weights published  version=3 ms=4.25 path=\"a b\" whole=true\n"));
  EXPECT_THAT(Text(), MatchesRegex("[0-9:.]+ info .*\n"));
}

TEST_F(LogTest, JsonKeepsNumbersAndEscapesText) {
  Use(LogLevel::kInfo, true);
  LogWarn(
      "say \"hi\"\n",
      {{"n", 3}, {"x", 0.5}, {"nan", std::numeric_limits<double>::quiet_NaN()}, {"text", "\x01"}});
  EXPECT_THAT(Text(), MatchesRegex("\\{\"time\":\"[0-9-]+T[0-9:.]+Z\",\"level\":\"warning\",.*\n"));
  EXPECT_THAT(Text(),
              HasSubstr(R"("message":"say \"hi\"\n","n":3,"x":0.5,"nan":"nan","text":"\u0001"})"));
}

TEST_F(LogTest, WhatIsBelowTheLevelIsNotSaid) {
  Use(LogLevel::kWarn, false);
  LogInfo("quiet");
  LogError("loud");
  EXPECT_THAT(Text(), HasSubstr("loud"));
  EXPECT_THAT(Text(), testing::Not(HasSubstr("quiet")));
  Use(LogLevel::kOff, false);
  EXPECT_FALSE(LogEnabled(LogLevel::kError));
}

TEST_F(LogTest, OnceIsOnceForEachKey) {
  Use(LogLevel::kInfo, false);
  const std::string key = NewKey();
  for (int i = 0; i < 3; ++i) LogOnce(key, LogLevel::kInfo, "first");
  LogOnce(NewKey(), LogLevel::kInfo, "second");
  const std::string text = Text();
  EXPECT_EQ(text.find("first"), text.rfind("first"));
  EXPECT_THAT(text, HasSubstr("second"));
}

TEST_F(LogTest, ARateLimitedLineSaysHowManyWereLeftOut) {
  Use(LogLevel::kInfo, false);
  const std::string key = NewKey();
  for (int i = 0; i < 3; ++i) LogEvery(std::chrono::hours(1), key, LogLevel::kInfo, "slow");
  // A shorter period has passed already.
  LogEvery(std::chrono::nanoseconds(0), key, LogLevel::kInfo, "slow");
  EXPECT_THAT(Text(), EndsWith("slow (and 2 times before)\n"));
}

TEST(LogLevels, AreParsedByName) {
  EXPECT_EQ(ParseLogLevel("debug").value(), LogLevel::kDebug);
  EXPECT_THAT(ParseLogLevel("loud").status().message(), HasSubstr("\"loud\""));
}

}  // namespace
}  // namespace tidemill
