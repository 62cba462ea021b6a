// Diagnostics, captured output, paths, texts for the model, options: what needs no box.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "tools/arguments.h"
#include "tools/box/capture.h"
#include "tools/diagnostics.h"
#include "tools/grader.h"
#include "tools/languages.h"
#include "tools/tool_cache.h"
#include "tools/tool_options.h"
#include "tools/tool_table.h"
#include "tools/tool_text.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ParseDiagnostics, ReadsGccTccAndTheLinker) {
  const auto found = ParseDiagnostics(
      "./a.c: In function 'f':\na.c:3:5: error: 'x' undeclared\n    3 |  x;\n"
      "a.c:4: error: ';' expected (got \"}\")\nb.cc:1:2: fatal error: no.h: No such file\n"
      "a.c:9:1: warning: unused [-Wunused]\n/usr/bin/ld: a.c:(.text+0x5): undefined reference to "
      "`g'\n"
      "collect2: error: ld returned 1 exit status\n");
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0].file(), "a.c");
  EXPECT_EQ(found[0].line(), 3u);
  EXPECT_EQ(found[0].column(), 5u);
  EXPECT_EQ(found[0].message(), "'x' undeclared");
  EXPECT_EQ(found[1].line(), 4u);
  EXPECT_EQ(found[1].column(), 0u);
  EXPECT_EQ(found[2].severity(), "error");
  EXPECT_EQ(found[3].severity(), "warning");
  EXPECT_THAT(found[4].message(), HasSubstr("undefined reference"));
}

TEST(ParseDiagnostics, AnythingElseIsNoDiagnostic) {
  EXPECT_TRUE(ParseDiagnostics("").empty());
  EXPECT_TRUE(ParseDiagnostics(":::\n:1:2: error: x\nfoo\n99999999999999999999:1: error").empty());
}

TEST(DiagnosticsText, ErrorsComeFirstAndTheBudgetHolds) {
  std::vector<v1::Diagnostic> many;
  for (uint32_t i = 0; i < 100; ++i) {
    v1::Diagnostic d;
    d.set_file("a.c");
    d.set_line(i + 1);
    d.set_severity(i == 50 ? "error" : "warning");
    d.set_message("message");
    many.push_back(d);
  }
  const std::string text = DiagnosticsText(many, 200);
  EXPECT_LE(text.size(), 200u);
  EXPECT_TRUE(text.starts_with("a.c:51: error: message\n")) << text;
  EXPECT_THAT(text, HasSubstr(" more\n"));
}

TEST(CutText, KeepsBothEndsWithinTheBudgetAndNoHalfCharacters) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "\xC3\xA4";
  for (size_t bytes = 0; bytes < 300; ++bytes) {
    const std::string cut = CutText(text, bytes);
    EXPECT_LE(cut.size(), bytes + 4) << bytes;
    EXPECT_TRUE(IsUtf8(cut)) << bytes;
  }
  EXPECT_EQ(CutText("short", 100), "short");
}

TEST(Capture, KeepsHeadAndTailWhateverThePieces) {
  std::string all;
  for (int i = 0; i < 1000; ++i) all += std::to_string(i) + " ";
  for (const size_t piece : {1u, 7u, 64u, 100u, 5000u}) {
    Capture capture(100);
    for (size_t at = 0; at < all.size(); at += piece)
      capture.Add(std::string_view(all).substr(at, piece));
    const std::string text = capture.Text();
    EXPECT_TRUE(capture.truncated());
    EXPECT_TRUE(text.starts_with(all.substr(0, 50))) << piece;
    EXPECT_TRUE(text.ends_with(all.substr(all.size() - 50))) << piece;
    EXPECT_THAT(text, HasSubstr(std::to_string(all.size() - 100) + " bytes cut"));
  }
  Capture whole(100);
  whole.Add(std::string(100, 'x'));
  EXPECT_FALSE(whole.truncated());
  EXPECT_EQ(whole.Text(), std::string(100, 'x'));
}

TEST(Capture, WithoutAHeadKeepsTheLastBytesBehindAMark) {
  Capture capture(0, 10);
  for (int i = 0; i < 26; ++i) capture.Add(std::string(1, static_cast<char>('a' + i)));
  EXPECT_EQ(capture.Text(), "[.. 16 bytes cut ..]\nqrstuvwxyz");
  EXPECT_EQ(capture.total(), 26u);
}

TEST(SameOutput, TrimsLineEndsOrComparesBytes) {
  const auto trimmed = v1::Grading::COMPARE_TRIMMED, exact = v1::Grading::COMPARE_EXACT;
  EXPECT_TRUE(SameOutput("1 \n2\n\n\n", "1\n2", trimmed));
  EXPECT_TRUE(SameOutput("", "\n", trimmed));
  EXPECT_FALSE(SameOutput("1\n\n2\n", "1\n2\n", trimmed));
  EXPECT_FALSE(SameOutput(" 1", "1", trimmed));
  EXPECT_FALSE(SameOutput("1", "1\n", exact));
  EXPECT_TRUE(SameOutput("1\n", "1\n", exact));
}

TEST(Arguments, AreAnythingAndNamedWhenWrong) {
  EXPECT_EQ(Arguments::Parse("[1]").status().code(), Code::kInvalid);
  EXPECT_EQ(Arguments::Parse("{\"a\":").status().code(), Code::kInvalid);
  EXPECT_EQ(Arguments::Parse(std::string(1000, '[')).status().code(), Code::kInvalid);
  auto arguments = Arguments::Parse(R"({"a":"x","n":3,"l":["p","q"],"o":{"deep":[1]}})");
  ASSERT_TRUE(arguments.ok());
  EXPECT_EQ(arguments->Need("a").value(), "x");
  EXPECT_THAT(arguments->Need("b").status().message(), HasSubstr("\"b\" is missing"));
  EXPECT_THAT(arguments->Text("n").status().message(), HasSubstr("\"n\" must be a string"));
  EXPECT_EQ(**arguments->Number("n"), 3);
  EXPECT_THAT(**arguments->Texts("l"), ElementsAre("p", "q"));
  EXPECT_THAT(**arguments->Texts("a"), ElementsAre("x"));
  EXPECT_FALSE(arguments->Texts("o").ok());
}

Result<std::string> RunFileTool(std::string_view tool, const std::string& arguments_json,
                                size_t text_limit, Workspace* workspace) {
  TM_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(arguments_json));
  return FindTool(tool)->run(arguments, text_limit, workspace);
}

TEST(FileTools, WriteReadAndTheirMistakes) {
  Workspace files;
  auto text =
      RunFileTool("write_file", R"({"path":"src/a.c","content":"1\n2\n3\n"})", 1000, &files);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(*text, "wrote 6 bytes to src/a.c\n");
  EXPECT_EQ(RunFileTool("read_file", R"({"path":"src/a.c"})", 1000, &files).value(), "1\n2\n3\n");
  EXPECT_EQ(
      RunFileTool("read_file", R"({"path":"src/a.c","first_line":2,"last_line":2})", 1000, &files)
          .value(),
      "2\n");
  EXPECT_THAT(RunFileTool("read_file", R"({"path":"b.c"})", 1000, &files).status().message(),
              HasSubstr("there are: src/a.c"));
  for (const char* wrong :
       {R"({"path":"../a","content":""})", R"({"path":"src","content":""})",
        R"({"path":"src/a.c/b","content":""})", R"({"path":"a"})", "{}", "no"}) {
    EXPECT_EQ(RunFileTool("write_file", wrong, 1000, &files).status().code(), Code::kInvalid)
        << wrong;
  }
  EXPECT_EQ(files.size(), 1u);
}

TEST(ToolOptions, ACommandLineTakesItsArgumentsAsSingleWords) {
  CommandTool tool;
  tool.command = {"sed", "-i", "s/{from}/{to}/", "{file}", "{to", "}"};
  EXPECT_EQ(tool.Arguments(), (std::vector<std::string>{"from", "to", "file"}));
  const auto words = tool.FillIn({{"from", "a b"}, {"to", "{file}"}, {"file", "; rm x"}});
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(*words, (std::vector<std::string>{"sed", "-i", "s/a b/{file}/", "; rm x", "{to", "}"}));
  EXPECT_THAT(tool.FillIn({{"from", "a"}, {"file", "b"}}).status().message(), HasSubstr("\"to\""));
  EXPECT_FALSE(tool.FillIn({{"from", "a"}, {"to", std::string(1, '\0')}, {"file", "b"}}).ok());
}

TEST(ToolOptions, AConfiguredToolMustBeWhole) {
  const auto error = [](CommandTool tool) {
    ToolOptions options;
    options.commands = {std::move(tool)};
    return CheckToolOptions(options).message();
  };
  CommandTool tool;
  tool.command = {"ls"};
  EXPECT_THAT(error(tool), HasSubstr("needs a name"));
  tool.name = "compile";
  EXPECT_THAT(error(tool), HasSubstr("built-in"));
  tool.name = "list";
  EXPECT_EQ(error(tool), "");
  tool.files = {"../outside"};
  EXPECT_THAT(error(tool), HasSubstr("list"));
  tool.files = {};
  tool.command = {};
  EXPECT_THAT(error(tool), HasSubstr("at least one word"));
}

TEST(Limits, OutOfRangeIsNamed) {
  BoxLimits limits;
  EXPECT_TRUE(CheckLimits(limits).ok());
  limits.memory_bytes = 1 << 20;
  EXPECT_THAT(CheckLimits(limits).message(), HasSubstr("memory_mb"));
}

TEST(Limits, ATimeoutIsTheMachinesDoingOnlyIfTheCommandWantedTheCpuAndDidNotGetIt) {
  const Duration second = std::chrono::seconds(1);
  const auto starved = [&](uint64_t cpu_ms, uint64_t waited_ms) {
    return WasStarved(
        {.cpu_us = cpu_ms * 1000, .waited_us = waited_ms * 1000, .wall = second, .cores = 2});
  };
  EXPECT_FALSE(starved(0, 0)) << "it slept";
  EXPECT_FALSE(starved(20, 60)) << "it hardly wanted to run";
  EXPECT_FALSE(starved(1000, 0)) << "it ran all the time";
  EXPECT_FALSE(starved(600, 400));
  EXPECT_TRUE(starved(400, 600));
  EXPECT_FALSE(starved(2000, 14000))
      << "it had both cores, and its own processes waited for each other";
  EXPECT_TRUE(starved(900, 14000));
  const auto among = [&](uint64_t cpu_ms, size_t sharing) {
    return WasStarved({.cpu_us = cpu_ms * 1000,
                       .waited_us = (1000 - cpu_ms) * 1000,
                       .wall = second,
                       .cores = 2,
                       .sharing = sharing});
  };
  EXPECT_FALSE(among(31, 64)) << "one of 64 on 2 cores has had its share";
  EXPECT_TRUE(among(10, 64)) << "others than ours had most of it";
  EXPECT_TRUE(among(31, 1));
}

TEST(TestsText, SaysHowManyPassedAndShowsTheFirstFailuresWithinTheBudget) {
  v1::ToolResult result;
  result.set_compiled(true);
  result.set_outcome(v1::OUTCOME_FAILED);
  result.set_tests_passed(1);
  result.set_tests_total(3);
  for (int i = 0; i < 2; ++i) {
    v1::TestFailure* failure = result.add_failures();
    failure->set_name("case " + std::to_string(i));
    failure->set_input("1 2");
    failure->set_expected("3");
    failure->set_actual("4");
  }
  const std::string text = TestsText(result, {}, 1000);
  EXPECT_EQ(text,
            "1 of 3 tests passed\nfailed: case 0\n  input: 1 2\n  expected: 3\n  got: 4\n"
            "failed: case 1\n  input: 1 2\n  expected: 3\n  got: 4\n");
  const std::string cut = TestsText(result, {}, 80);
  EXPECT_LE(cut.size(), 80u);
  EXPECT_THAT(cut, HasSubstr("case 0"));
  EXPECT_THAT(cut, Not(HasSubstr("case 1")));
}

TEST(ToolCache, FindsTheSameRequestAndForgetsTheLongestUnused) {
  v1::ToolRequest request;
  request.set_tool("compile");
  v1::File* file = request.mutable_tree()->add_files();
  file->set_path("a.c");
  file->set_content("int x;");
  file->set_has_content(true);
  const std::string one = ToolRequestHash(request);
  request.set_request_id("another");
  request.mutable_episode()->set_task("another");
  EXPECT_EQ(ToolRequestHash(request), one);
  request.set_root("another");
  EXPECT_NE(ToolRequestHash(request), one) << "another toolchain may say something else";
  request.clear_root();
  EXPECT_EQ(ToolRequestHash(request), one);
  file->set_content("int y;");
  EXPECT_NE(ToolRequestHash(request), one);

  ToolCache cache(2, 1 << 20);
  v1::ToolResult result;
  result.set_outcome(v1::OUTCOME_UNAVAILABLE);
  cache.Store("ours", result);
  EXPECT_FALSE(cache.Find("ours").has_value()) << "a failure of ours was cached";
  result.set_outcome(v1::OUTCOME_OK);
  cache.Store("a", result);
  cache.Store("b", result);
  EXPECT_TRUE(cache.Find("a").has_value());
  cache.Store("c", result);
  EXPECT_FALSE(cache.Find("b").has_value());
  EXPECT_TRUE(cache.Find("a")->cached());
  result.set_text(std::string(200'000, 'x'));
  for (int i = 0; i < 20; ++i) cache.Store(std::to_string(i), result);
  EXPECT_FALSE(cache.Find("0").has_value());
}

TEST(ParsePythonErrors, ReadsFileAndLine) {
  const auto found = ParsePythonErrors(
      "  File \"./a.py\", line 3\n    x = (\n        ^\nSyntaxError: '(' was never closed\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].line(), 3u);
  EXPECT_EQ(found[0].message(), "SyntaxError: '(' was never closed");
}

}  // namespace
}  // namespace tidemill
