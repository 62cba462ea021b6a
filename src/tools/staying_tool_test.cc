#include "tools/staying_tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using nlohmann::json;
using testing::HasSubstr;

CommandTool Lookup() {
  CommandTool tool;
  tool.name = "lookup";
  tool.command = {"python3", "lookup.py"};
  tool.stays = true;
  tool.parameters = R"({"type": "object", "required": ["word"],
                        "properties": {"word": {"type": "string"}, "count": {"type": "integer"}}})";
  return tool;
}

v1::ToolRequest CallOf(const std::string& arguments) {
  v1::ToolRequest request;
  request.set_tool("lookup");
  request.set_arguments_json(arguments);
  request.mutable_episode()->set_task("t");
  request.mutable_episode()->set_group(3);
  return request;
}

Workspace TaskFiles() {
  Workspace files;
  files["a.txt"].content = "one two";
  files["b.txt"].content = "three";
  files["picture"].content = "\xff\xd8";
  return files;
}

TEST(StayingTool, TheQuestionHasTheArgumentsAndTheFilesThatAreText) {
  CommandTool tool = Lookup();
  auto question = ToolQuestion(CallOf(R"({"word": "one", "count": 2})"), tool, TaskFiles());
  ASSERT_TRUE(question.ok()) << question.status().ToString();
  const json said = json::parse(*question);
  EXPECT_EQ(said["arguments"], json::parse(R"({"word": "one", "count": 2})"));
  EXPECT_EQ(said["files"], json::parse(R"({"a.txt": "one two", "b.txt": "three"})"));
  EXPECT_EQ(said["group"], 3);
  tool.files = {"b.txt"};
  question = ToolQuestion(CallOf(R"({"word": "one"})"), tool, TaskFiles());
  EXPECT_EQ(json::parse(*question)["files"].size(), 1u);
}

TEST(StayingTool, ArgumentsThatTheSchemaForbidsAreTheModelsMistake) {
  const auto why = [](const std::string& arguments) {
    const Status status = ToolQuestion(CallOf(arguments), Lookup(), {}).status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    return status.message();
  };
  EXPECT_THAT(why(""), HasSubstr("\"word\" is missing"));
  EXPECT_THAT(why(R"({"word": 3})"), HasSubstr("\"word\" must be of type string"));
  EXPECT_THAT(why(R"({"word": "a", "count": 1.5})"), HasSubstr("of type integer"));
  EXPECT_THAT(why(R"({"word": "a", "wrod": "b"})"), HasSubstr("no argument \"wrod\""));
  EXPECT_THAT(why("[1]"), HasSubstr("must be a JSON object"));
}

TEST(StayingTool, TheAnswerChangesTheWorkspaceWhereTheToolMay) {
  CommandTool tool = Lookup();
  Workspace files = TaskFiles();
  v1::ToolResult result;
  const std::string line =
      R"({"id": 1, "text": "done", "files": {"a.txt": "new", "b.txt": null, "sub/c.txt": "made"}})";
  ASSERT_TRUE(TakeToolAnswer(line, tool, files, &result).ok());
  EXPECT_EQ(result.text(), "done");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(files["a.txt"].content, "new");
  EXPECT_FALSE(files.contains("b.txt"));
  EXPECT_EQ(files["sub/c.txt"].content, "made");
  tool.changes = false;
  files = TaskFiles();
  ASSERT_TRUE(TakeToolAnswer(line, tool, files, &result).ok());
  EXPECT_EQ(files["a.txt"].content, "one two");
  ASSERT_TRUE(TakeToolAnswer(R"({"text": "no", "failed": true})", tool, files, &result).ok());
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
}

TEST(StayingTool, AnAnswerThatIsNoneIsAFailureOfOursAndChangesNothing) {
  const auto why = [](const std::string& line) {
    Workspace files = TaskFiles();
    v1::ToolResult result;
    const Status status = TakeToolAnswer(line, Lookup(), files, &result);
    EXPECT_EQ(status.code(), Code::kUnavailable) << line;
    EXPECT_EQ(files.size(), 3u);
    EXPECT_EQ(files["a.txt"].content, "one two");
    return status.message();
  };
  EXPECT_THAT(why("{}"), HasSubstr("needs a \"text\""));
  EXPECT_THAT(why(R"({"text": 3})"), HasSubstr("needs a \"text\""));
  EXPECT_THAT(why(R"({"text": "a", "failed": 1})"), HasSubstr("true or false"));
  EXPECT_THAT(why(R"({"text": "a", "files": {"a.txt": "x", "../b": "y"}})"), HasSubstr("../b"));
  EXPECT_THAT(why(R"({"text": "a", "files": {"a.txt": 3}})"), HasSubstr("a text or null"));
}

TEST(StayingTool, KeysThatDoNotGoTogetherAreNamed) {
  const auto why = [](auto change) {
    CommandTool tool = Lookup();
    change(tool);
    return CheckStaying(tool).message();
  };
  EXPECT_EQ(why([](CommandTool&) {}), "");
  EXPECT_THAT(why([](CommandTool& tool) { tool.stays = false; }), HasSubstr("stays = true"));
  EXPECT_THAT(why([](CommandTool& tool) { tool.parser = CommandTool::Parser::kTests; }),
              HasSubstr("\"parser\""));
  EXPECT_THAT(why([](CommandTool& tool) { tool.parameters = "[1]"; }), HasSubstr("JSON schema"));
  EXPECT_THAT(why([](CommandTool& tool) { tool.parameters = R"({"required": [1]})"; }),
              HasSubstr("list of names"));
}

}  // namespace
}  // namespace tidemill
