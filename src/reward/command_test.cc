#include "reward/command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "reward/command_port.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

Result<std::string> Shell(const std::string& script, const std::string& input = "",
                          std::chrono::milliseconds time = std::chrono::seconds(20)) {
  return RunCommand({"sh", "-c", script}, input, {.time = time, .output_bytes = 4096});
}

TEST(Command, GivesWhatTheProgramWrote) {
  EXPECT_EQ(Shell("cat; echo there", "hello ").value(), "hello there\n");
  // More than a pipe holds, to a program that reads none of it.
  EXPECT_EQ(Shell("echo done", std::string(1 << 20, 'x')).value(), "done\n");
}

TEST(Command, AnotherExitStatusIsAFailureWithWhatItComplainedOf) {
  const Status status = Shell("echo no model >&2; exit 3").status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("exit status 3: no model"));
  EXPECT_THAT(Shell("kill -9 $$").status().message(), HasSubstr("signal 9"));
}

TEST(Command, ItInheritsNoDescriptor) {
  const int planted = open("/", O_RDONLY | O_DIRECTORY);  // not close-on-exec
  const int high = fcntl(planted, F_DUPFD, 700);
  EXPECT_EQ(Shell("ls /proc/self/fd").value(), "0\n1\n2\n3\n");
  close(planted);
  close(high);
}

TEST(Command, AProgramThatDoesNotExistIsNamed) {
  const Status status = RunCommand({"no-such-judge"}, "", {}).status();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("\"no-such-judge\""));
}

TEST(Command, TimeAndOutputAreBoundedAndNothingItStartedIsLeft) {
  const TemporaryDirectory folder;
  const std::string pid_file = folder / "pid";
  const Status status =
      Shell("sleep 600 & echo $! > " + pid_file + "; wait", "", std::chrono::seconds(3)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  pid_t child = 0;
  std::ifstream(pid_file) >> child;
  ASSERT_GT(child, 0);
  // It was killed with its group; whoever adopted it may take a moment to reap it.
  EXPECT_TRUE(Eventually([&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string skip, state;
    stat >> skip >> skip >> state;
    return state == "Z" || kill(child, 0) != 0;
  }));
  EXPECT_EQ(Shell("yes").status().code(), Code::kFull);
}

TEST(CommandPort, AsksTheProgramAndReadsItsAnswer) {
  CommandPortOptions options;
  options.commands["command"] = {"sh", "-c", "cat >/dev/null; echo '{\"score\": 0.25}'"};
  options.commands["wrong"] = {"sh", "-c", "echo '{\"score\": \"high\"}'"};
  CommandPort port(options);
  EXPECT_TRUE(port.Knows("command"));
  EXPECT_FALSE(port.Knows("judge"));
  port.Submit("command", "{}\n", 1);
  port.Submit("wrong", "{}\n", 2);
  port.Submit("judge", "{}\n", 3);
  std::map<uint64_t, ScorerDone> done;
  ASSERT_TRUE(Eventually([&] {
    for (ScorerDone& one : port.events().TakeAll()) done[one.tag] = std::move(one);
    return done.size() == 3;
  }));
  EXPECT_EQ(done[1].answer.score, 0.25);
  EXPECT_THAT(done[2].status.message(), HasSubstr("\"score\" must be a number"));
  EXPECT_THAT(done[3].status.message(), HasSubstr("\"judge\""));
}

TEST(Answer, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"hello", "one JSON object, got \"hello\""},
      {"[1]", "one JSON object"},
      {"{}", "neither \"score\" nor \"parts\""},
      {R"({"score": 7})", "\"score\" must be a number from -1 to 1, got 7"},
      {R"({"score": null})", "got null"},
      {R"({"score": 1, "comment": 3})", "\"comment\" must be a string, got 3"},
      {R"({"score": 1, "version": 0})", "\"version\" must be a whole number"},
      {R"({"score": 1, "version": 1.5})", "\"version\" must be a whole number"},
      {R"({"parts": [1]})", "\"parts\" must be an object"},
      {R"({"parts": {"style": 2}})", "\"parts.style\" must be a number from 0 to 1, got 2"},
      {R"({"parts": {"style": {}}})", "\"parts.style.score\" is missing"},
      {R"({"score": 1, "turn_rewards": [0, "x"]})", "\"turn_rewards\" must be a number"},
      {R"({"score": 1, "by_role": [1]})", "\"by_role\" must be an object"},
      {R"({"score": 1, "by_role": {"coder": 7}})", "\"by_role.coder\" must be a number"},
      {R"({"error": "the model is loading"})", "the model is loading"}};
  for (const auto& [text, message] : wrong) {
    const Result<CommandAnswer> answer = ParseAnswer(text);
    ASSERT_FALSE(answer.ok()) << text;
    EXPECT_THAT(answer.status().message(), HasSubstr(message));
  }
}

TEST(Answer, ALongCommentIsCutBetweenCharacters) {
  std::string comment = "x";
  while (comment.size() < 5000) comment += "\xE6\xB5\xAA";
  const auto answer = ParseAnswer(R"({"score": 1, "comment": ")" + comment + "\"}");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->comment, comment.substr(0, 1 + 3 * 1365) + "..");
}

TEST(Answer, EverythingThatMayBeSaidIsRead) {
  const Result<CommandAnswer> answer = ParseAnswer(
      R"({"score": -0.5, "comment": "c", "version": 4, "turn_rewards": [0.5, 0],
          "by_role": {"coder": 0.75},
          "parts": {"style": 0.25, "security": {"score": 1, "comment": "safe"}}})");
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->score, -0.5);
  EXPECT_EQ(answer->comment, "c");
  EXPECT_EQ(answer->version, 4u);
  EXPECT_EQ(answer->turn_rewards.size(), 2u);
  EXPECT_EQ(answer->by_role.at("coder"), 0.75);
  EXPECT_EQ(answer->parts.at("style").score, 0.25);
  EXPECT_EQ(answer->parts.at("security").comment, "safe");
}

}  // namespace
}  // namespace tidemill
