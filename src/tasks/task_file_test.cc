#include "tasks/task_file.h"
#include "testing/test_folders.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGood[] =
    R"({"id":"sum","prompt":"Add.","answer_file":"f.c","grading":{"sources":["f.c"],)"
    R"("harness":{"main.c":"int main;"},"build":["tcc","f.c"],"run":["./a.out"],)"
    R"("mode":"lines","limits":{"wall_ms":100},"cases":[{"input":"1 2","expected":"3"}]}})";

TaskFileContents Parse(const std::string& text) {
  std::istringstream input(text);
  return ParseTasks(input, "tasks.jsonl");
}

// The only error of a line that is kGood with `from` replaced by `to`.
std::string ErrorWith(const std::string& from, const std::string& to) {
  std::string line = kGood;
  const size_t at = line.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  line.replace(at, from.size(), to);
  const TaskFileContents contents = Parse(line);
  if (contents.errors.size() == 1) return contents.errors[0];
  std::string all = std::to_string(contents.errors.size()) + " errors:";
  for (const std::string& error : contents.errors) all += " " + error;
  return all;
}

TEST(TaskFile, AnEmptyListOfToolsMeansNone) {
  const std::string rest = R"("prompt":"p","answer_file":"a.py","grading":{"sources":["a.py"],)"
                           R"("run":["python3","a.py"],"cases":[{"input":"","expected":"1"}]}})";
  const TaskFileContents contents = Parse(R"({"id":"t","tools":[],)" + rest);
  ASSERT_THAT(contents.errors, IsEmpty());
  EXPECT_TRUE(contents.tasks[0].no_tools());
  EXPECT_THAT(TaskToJsonLine(contents.tasks[0]), HasSubstr(R"("tools":[])"));
  EXPECT_FALSE(Parse(R"({"id":"t",)" + rest).tasks.at(0).no_tools());
}

TEST(TaskFile, ReadsEveryField) {
  const TaskFileContents contents = Parse(
      R"({"id":"t","prompt":"p","files":{"a/b.py":"x","run.sh":{"content":"y","executable":true}},)"
      R"("tools":["compile"],"answer_file":"a/b.py","answer_prefix":"<","answer_suffix":">",)"
      R"("limits":{"cpu_ms":5,"memory_mb":6,"processes":7,"output_kb":8,"disk_mb":9,"wall_ms":4},)"
      R"("tags":["x","y"],"difficulty":2.5,"max_turns":3,)"
      R"("grading":{"sources":["a/b.py"],"run":["python3","a/b.py"],"compare":"exact",)"
      R"("mode":"process","cases":[{"name":"n","input":"i\nj","expected":"e\n"}]}})");
  ASSERT_THAT(contents.errors, IsEmpty());
  ASSERT_EQ(contents.tasks.size(), 1u);
  const v1::Task& task = contents.tasks[0];
  EXPECT_EQ(task.files(0).path(), "a/b.py");
  EXPECT_TRUE(task.files(0).has_content());
  EXPECT_TRUE(task.files(1).executable());
  EXPECT_EQ(task.limits().disk_mb(), 9u);
  EXPECT_EQ(task.max_turns(), 3u);
  EXPECT_DOUBLE_EQ(task.difficulty(), 2.5);
  EXPECT_EQ(task.grading().compare(), v1::Grading::COMPARE_EXACT);
  EXPECT_EQ(task.grading().cases(0).input(), "i\nj");
  EXPECT_FALSE(task.has_examples());
}

TEST(TaskFile, ExamplesTakeFromGradingWhatTheyLeaveOut) {
  std::string line = kGood;
  line.insert(line.size() - 1, R"(,"examples":{"cases":[{"input":"0 0","expected":"0"}]})");
  const TaskFileContents contents = Parse(line);
  ASSERT_THAT(contents.errors, IsEmpty());
  const v1::Grading& examples = contents.tasks[0].examples();
  EXPECT_EQ(examples.build(0), "tcc");
  EXPECT_EQ(examples.harness(0).path(), "main.c");
  EXPECT_EQ(examples.mode(), v1::Grading::MODE_LINES);
  EXPECT_EQ(examples.limits().wall_ms(), 100u);
  ASSERT_EQ(examples.cases_size(), 1);
  EXPECT_EQ(examples.cases(0).input(), "0 0");
}

TEST(TaskFile, WhatIsWrittenReadsBackEqual) {
  std::string line = kGood;
  line.insert(line.size() - 1,
              R"(,"tags":["é"],"files":{"x":{"content":"\u0000\n","executable":true}},)"
              R"("examples":{"mode":"process","cases":[{"name":" f(1)=2","expected":"0"}]})");
  const TaskFileContents first = Parse(line);
  ASSERT_THAT(first.errors, IsEmpty());
  const TaskFileContents second = Parse(TaskToJsonLine(first.tasks[0]));
  ASSERT_THAT(second.errors, IsEmpty());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(first.tasks[0], second.tasks[0]))
      << first.tasks[0].DebugString() << second.tasks[0].DebugString();
}

TEST(TaskFile, NamesLineAndFieldOfAWrongType) {
  EXPECT_EQ(ErrorWith(R"("wall_ms":100)", R"("wall_ms":"ten")"),
            "tasks.jsonl:1: grading.limits.wall_ms: must be a whole number from 1 to 86400000, got "
            "\"ten\"");
  EXPECT_EQ(ErrorWith(R"("prompt":"Add.")", R"("prompt":7)"),
            "tasks.jsonl:1: prompt: must be a string, got 7");
}

TEST(TaskFile, AnUnknownFieldIsRefusedWithTheNearestKnown) {
  EXPECT_EQ(ErrorWith(R"("sources")", R"("source":[],"sources")"),
            "tasks.jsonl:1: grading.source: unknown field. Did you mean \"sources\"?");
}

TEST(TaskFile, SaysWhatIsMissing) {
  EXPECT_THAT(ErrorWith(R"("id":"sum",)", ""), HasSubstr("tasks.jsonl:1: id: is missing"));
  EXPECT_THAT(ErrorWith(R"("run":["./a.out"],)", ""),
              HasSubstr("grading.run: must name a program"));
  EXPECT_THAT(ErrorWith(R"([{"input":"1 2","expected":"3"}])", "[]"),
              HasSubstr("grading.cases: must have at least one test"));
  EXPECT_THAT(ErrorWith(R"(,"expected":"3")", ""),
              HasSubstr("grading.cases[0].expected: is missing"));
}

TEST(TaskFile, RefusesPathsThatLeaveTheWorkspace) {
  EXPECT_THAT(
      ErrorWith(R"("main.c")", R"("../main.c")"),
      HasSubstr(R"(grading.harness["../main.c"]: the path "../main.c" has an empty, "." or)"));
  EXPECT_THAT(ErrorWith(R"("main.c")", R"("/etc/passwd")"), HasSubstr("must be relative"));
}

TEST(TaskFile, RefusesATaskThatCouldNotBeGradedAsMeant) {
  EXPECT_THAT(ErrorWith(R"("answer_file":"f.c")", R"("answer_file":"g.c")"),
              HasSubstr("is not in grading.sources"));
  EXPECT_THAT(ErrorWith(R"("main.c")", R"("f.c")"), HasSubstr("is also a file of the harness"));
  EXPECT_THAT(ErrorWith(R"("expected":"3")", R"("expected":"3\n")"),
              HasSubstr("cases[0].expected: must be one line"));
  EXPECT_THAT(ErrorWith(R"("mode":"lines")", R"("mode":"line")"),
              HasSubstr("must be \"process\" or \"lines\" or \"python\", got \"line\""));
}

TEST(TaskFile, ADuplicateIdNamesTheFirstLine) {
  const TaskFileContents contents = Parse(std::string(kGood) + "\n\n" + kGood + "\n");
  EXPECT_THAT(
      contents.errors,
      ElementsAre("tasks.jsonl:3: id: \"sum\" was used in line 1 already; ids must be unique"));
  EXPECT_EQ(contents.tasks.size(), 1u);
}

TEST(TaskFile, TellsLinesThatAreNoJsonAndGoesOn) {
  const TaskFileContents contents = Parse(std::string("{\"id\":\n") + kGood + "\n[]\n");
  ASSERT_EQ(contents.errors.size(), 2u);
  EXPECT_THAT(contents.errors[0], HasSubstr("tasks.jsonl:1: the line: is not JSON: parse error"));
  EXPECT_EQ(contents.errors[1], "tasks.jsonl:3: the line: must be an object, got an array");
  EXPECT_EQ(contents.tasks.size(), 1u);
}

TEST(TaskFile, AnObjectOverSeveralLinesIsOneErrorThatSaysWhatToDo) {
  std::string pretty = kGood;
  for (size_t at = 0; (at = pretty.find(",\"", at)) != std::string::npos; at += 2) {
    pretty.insert(at + 1, "\n");
  }
  const size_t lines = static_cast<size_t>(std::count(pretty.begin(), pretty.end(), '\n')) + 1;
  std::string other = kGood;
  other.replace(other.find("sum"), 3, "two");
  const TaskFileContents contents = Parse(other + "\n" + pretty + "\n" + pretty + "\nx\n");
  ASSERT_THAT(contents.errors, testing::SizeIs(2)) << testing::PrintToString(contents.errors);
  EXPECT_EQ(contents.errors[0],
            "tasks.jsonl:2: the object goes on to line " + std::to_string(lines + 1) +
                ", but a task file has one object per line: jq -c . FILE > NEW");
  EXPECT_THAT(contents.errors[1], HasSubstr("tasks.jsonl:" + std::to_string(2 * lines + 2) +
                                            ": the line: is not JSON"));
  EXPECT_EQ(contents.tasks.size(), 1u);
  EXPECT_THAT(contents.lines, ElementsAre(1u));
  const TaskFileContents list = Parse("[\n" + pretty + "\n]");
  ASSERT_THAT(list.errors, testing::SizeIs(1));
  EXPECT_THAT(list.errors[0], HasSubstr("jq -c '.[]' FILE"));
}

TEST(TaskFile, AFileThatIsNotLinesOfTextIsNamedForWhatItIs) {
  const auto error = [](const std::string& text) {
    const TaskFileContents contents = Parse(text);
    return contents.errors.size() == 1 ? contents.errors[0] : "not one error";
  };
  EXPECT_THAT(error("\x1f\x8b\x08 and so on\n\n\n"), HasSubstr("compressed with gzip"));
  EXPECT_THAT(error("\x28\xb5\x2f\xfd.."), HasSubstr("compressed with zstd"));
  std::string wide = "\xff\xfe";
  for (const char c : std::string(kGood) + "\n" + kGood) wide += c, wide += '\0';
  EXPECT_THAT(error(wide), HasSubstr("is UTF-16"));
  EXPECT_THAT(error(wide.substr(2)), HasSubstr("is UTF-16")) << "without its mark";
  EXPECT_THAT(Parse("\xEF\xBB\xBF" + std::string(kGood)).errors, IsEmpty()) << "UTF-8 with a mark";
}

TEST(TaskFile, ANameGivenTwiceIsAnError) {
  EXPECT_EQ(ErrorWith(R"("mode":"lines")", R"("mode":"lines","mode":"process")"),
            "tasks.jsonl:1: the line: the name \"mode\" appears twice in one object");
}

TEST(TaskFile, DeepNestingIsRefusedNotFollowed) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const TaskFileContents contents = Parse(deep);
  ASSERT_EQ(contents.errors.size(), 1u);
  EXPECT_THAT(contents.errors[0], HasSubstr("nested deeper"));
}

TEST(TaskFile, StopsAfterTooManyErrors) {
  std::string text;
  for (size_t i = 0; i < kTaskErrorsMax + 10; ++i) text += "x\n";
  const TaskFileContents contents = Parse(text);
  EXPECT_EQ(contents.errors.size(), kTaskErrorsMax);
  EXPECT_TRUE(contents.more_errors);
}

TEST(TaskFile, AFileThatIsNotThereIsNotFound) {
  EXPECT_EQ(ReadTaskFile("/nonexistent/tasks.jsonl").status().code(), Code::kNotFound);
  EXPECT_EQ(ReadTaskFile("/").status().code(), Code::kNotFound);
}

TEST(TaskFile, TheExamplesForPeopleAreGood) {
  size_t files = 0;
  const auto folder = std::filesystem::path(SourceDir()) / "examples";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jsonl") continue;
    const auto tasks = ReadTaskFile(entry.path().string());
    EXPECT_TRUE(tasks.ok()) << tasks.status().message();
    ++files;
  }
  EXPECT_GE(files, 1u);
}

}  // namespace
}  // namespace tidemill
