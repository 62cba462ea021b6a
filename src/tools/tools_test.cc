#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hash.h"
#include "testing/tool_fixture.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Tools = ToolTest;

TEST_F(Tools, CompileGivesDiagnosticsWithLineAndColumn) {
  const auto result = Call(Request("compile", {{"a.c", "int f(void) {\n  return y;\n}\n"}}));
  EXPECT_EQ(Name(result), "failed");
  EXPECT_FALSE(result.compiled());
  ASSERT_GE(result.diagnostics_size(), 1);
  EXPECT_EQ(result.diagnostics(0).file(), "a.c");
  EXPECT_EQ(result.diagnostics(0).line(), 2u);
  EXPECT_EQ(result.diagnostics(0).column(), 10u);
  EXPECT_EQ(result.diagnostics(0).severity(), "error");
  EXPECT_TRUE(result.text().starts_with("compile failed\na.c:2:10: error: ")) << result.text();
  EXPECT_EQ(TreeHash(result.tree()),
            TreeHash(Request("", {{"a.c", "int f(void) {\n  return y;\n}\n"}}).tree()));
}

TEST_F(Tools, CompileTakesProgramsLibrariesAndMixedLanguages) {
  EXPECT_TRUE(Call(Request("compile", {{"a.c", "int main(void) { return 0; }\n"}})).compiled());
  EXPECT_TRUE(
      Call(Request("compile", {{"a.c", "int f(void) { return 0; }\n"}, {"b.c", "int x;\n"}}))
          .compiled());
  const auto mixed = Call(Request(
      "compile",
      {{"a.c", "int f(void) { return 1; }\n"},
       {"m.cc",
        "#include <vector>\nextern \"C\" int f();\nint main() { std::vector<int> v(f()); }\n"}}));
  EXPECT_TRUE(mixed.compiled()) << mixed.text();
  const auto undefined =
      Call(Request("compile", {{"a.c", "int g(void);\nint main(void) { return g(); }\n"}}));
  EXPECT_FALSE(undefined.compiled());
  EXPECT_THAT(undefined.text(), HasSubstr("undefined reference"));
}

TEST_F(Tools, CompileChecksPython) {
  EXPECT_TRUE(Call(Request("compile", {{"a.py", "def f():\n    return 1\n"}})).compiled());
  const auto result = Call(Request("compile", {{"a.py", "def f(:\n"}}));
  EXPECT_FALSE(result.compiled());
  ASSERT_EQ(result.diagnostics_size(), 1);
  EXPECT_EQ(result.diagnostics(0).line(), 1u);
}

TEST_F(Tools, AProgramThatIsNotInstalledIsOurFailureAndOneThatSaysSoIsTheAgents) {
  v1::ToolRequest request = Request("grade", {{"answer.sh", "echo cannot run sh >&2; exit 127\n"}});
  v1::Grading& grading = *request.mutable_grading();
  grading.add_sources("answer.sh");
  for (const char* word : {"sh-of-another-machine", "answer.sh"}) grading.add_run(word);
  grading.add_cases()->set_expected("1");
  for (const auto mode : {v1::Grading::MODE_LINES, v1::Grading::MODE_PROCESS}) {
    grading.set_mode(mode);
    grading.set_run(0, "sh-of-another-machine");
    const v1::ToolResult missing = Call(request);
    EXPECT_EQ(Name(missing), "unavailable");
    EXPECT_EQ(missing.cause(), "sh-of-another-machine is not installed on this machine");
    grading.set_run(0, "sh");
    EXPECT_EQ(Name(Call(request)), "failed");
  }
  grading.add_build("make-of-another-machine");
  EXPECT_EQ(Name(Call(request)), "unavailable");
}

TEST_F(Tools, CompileMayBeToldWhichFiles) {
  const Texts files = {{"a.c", "int f(void) { return 0; }\n"}, {"b.c", "nonsense\n"}};
  EXPECT_TRUE(Call(Request("compile", files, R"({"files":["a.c"]})")).compiled());
  EXPECT_FALSE(Call(Request("compile", files)).compiled());
  EXPECT_EQ(Name(Call(Request("compile", files, R"({"files":["c.c"]})"))), "invalid");
  EXPECT_EQ(Name(Call(Request("compile", files, R"({"files":[]})"))), "invalid");
  EXPECT_EQ(Name(Call(Request("compile", {{"-o.c", "int main(void) { return 0; }\n"}}))), "ok");
}

TEST_F(Tools, EditsAreWrittenFirst) {
  v1::ToolRequest request = Request("compile", {{"a.c", "nonsense\n"}});
  *request.add_edits() = TreeOf({{"a.c", "int x;\n"}}).files(0);
  const auto result = Call(request);
  EXPECT_TRUE(result.compiled()) << result.text();
  EXPECT_EQ(result.tree().files(0).content(), "int x;\n");
}

TEST_F(Tools, LintFindsWhatTheCompilerDoesNot) {
  const auto result =
      Call(Request("lint", {{"a.c",
                             "#include <stdlib.h>\nint f(void) {\n  int a[3];\n  a[5] = 1;\n"
                             "  char *p = malloc(3);\n  return a[0];\n}\n"}}));
  EXPECT_EQ(Name(result), "ok");
  EXPECT_GE(result.diagnostics_size(), 1);
  EXPECT_THAT(result.text(), HasSubstr("a.c:4"));
  EXPECT_EQ(Call(Request("lint", {{"a.c", "int f(int x) { return x; }\n"}})).text(),
            "no remarks\n");
}

constexpr const char* kBad = "int f(void) {\n  int a[3];\n  a[5] = 1;\n  return a[0];\n}\n";

TEST_F(Tools, LintOfNothingIsNotOk) {
  EXPECT_EQ(Name(Call(Request("lint", {}))), "invalid");
  const std::pair<const char*, std::string> files[] = {
      {"a.c", ""},
      {"a.c", " \n// int f(void);\n/* x */"},
      {"a.c", "x\n"},
      {"a.c", "}"},
      {"a.c", "the quick brown fox\n"},
      {"a.py", "# nothing\n"},
      {"a.py", "def f(:\n"},
      {"a.py", "\"\"\"A docstring.\"\"\"\n"},
      {"a.py", "import os\npass\n...\nx: int\n"},
      {"a.py", "if False:\n    def f():\n        return 0\n"},
      // What the compiler does not see, or what is only said to be there.
      {"a.c", "#if 0\nint f(void) { return 0; }\n#endif\n"},
      {"a.c", "typedef int number;\n"},
      {"a.c", "extern int x;\n"},
      {"a.c", "#include <stdio.h>\n#include <stdlib.h>\nint f(int (*g)(void));\n"},
      {"a.c", "struct __attribute__((packed)) s { int x; };\nenum { A = 1 };\n"},
      {"a.cc", "#include <utility>\nnamespace a {\nclass B;\nusing C = int;\n}\n"}};
  for (const auto& file : files) {
    const auto result = Call(Request("lint", {file}));
    EXPECT_NE(Name(result), "ok") << file.second;
    EXPECT_NE(Name(result), "unavailable") << result.cause();
  }
  for (const auto& file : std::initializer_list<std::pair<const char*, std::string>>{
           {"a.c",
            "static const int t[] = {1, 2};\nint f(int);\nint f(int i) { return t[i & 1]; }\n"},
           {"a.c", "const char *const name = \"x\";\n"},
           {"a.py", "import os\n\nprint(os.name)\n"},
           {"a.py", "if True:\n    x = 1\n"},
           {"a.cc", "namespace a {\nstruct B {\n  int f() const { return 1; }\n};\n}\n"}}) {
    EXPECT_EQ(Name(Call(Request("lint", {file}))), "ok") << file.second;
  }
  const auto package =
      Request("lint", {{"p/__init__.py", ""}, {"p/a.py", "def f():\n    return 1\n"}});
  EXPECT_EQ(Name(Call(package)), "ok") << "a package's first file may be empty";
  auto missing = Request("lint", {{"a.c", "int f(void);\n"}});
  missing.set_arguments_json(R"({"files":["b.c"]})");
  EXPECT_EQ(Name(Call(missing)), "invalid");
}

TEST_F(Tools, TheAgentsFilesDoNotSilenceTheLinter) {
  const std::string bad = kBad;
  // A configuration of its own, with and without sense; a module in the place of Python's.
  for (const char* cfg : {"<?xml version=\"1.0\"?><def", "<?xml version=\"1.0\"?><def/>"}) {
    auto request = Request("lint", {{"a.c", bad}, {"std.cfg", cfg}, {"a.h", "int f(void);\n"}});
    request.set_arguments_json(R"({"files":["a.c","a.h"]})");
    EXPECT_EQ(Name(Call(request)), "ok");
    EXPECT_GE(Call(request).diagnostics_size(), 1);
  }
  EXPECT_NE(Name(Call(Request(
                "lint", {{"py_compile.py", "import sys\nsys.exit(0)\n"}, {"a.py", "def f(:\n"}}))),
            "ok");
  // What the preprocessor can hide, and what the linter would pass over without a word.
  std::string configurations = bad;
  for (int i = 0; i < 30; ++i) {
    configurations = "#ifdef A" + std::to_string(i) + "\nint a;\n#endif\n" + configurations;
  }
  for (const std::string& source : std::vector<std::string>{
           "#include \"a.c\"\n" + bad, "#include \"code.txt\"\n", "#error no\n" + bad,
           "#if __GNUC__ < 4 && !__TINYC__\n#error no\n#endif\n" + bad,
           "#ifndef __CPPCHECK__\n" + bad + "#endif\n", "#if __STDC__ == 1\n" + bad + "#endif\n",
           "/* cppcheck-suppress all */\n" + bad,
           "// cppcheck-suppress-file arrayIndexOutOfBounds\n" + bad, configurations,
           "#include \"a:b.h\"\nint g(void) { return f(); }\n", "UNKNOWN(x)\n" + bad,
           "int f(void) { " + std::string(900, 'x') + " }; }\n"}) {
    const auto result = Call(Request("lint", {{"a.c", source}, {"code.txt", bad}, {"a:b.h", bad}}));
    EXPECT_TRUE(Name(result) != "ok" || result.diagnostics_size() > 0)
        << source << "\n"
        << Name(result) << result.text();
  }
}

TEST_F(Tools, AMacroBombIsNoCleanFile) {
  std::string source = "#define A0 x, x\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "A" + std::to_string(i - 1);
    source += "#define A" + std::to_string(i) + " ";
    for (int j = 0; j < 10; ++j) source += (j == 0 ? "" : ", ") + before;
    source += "\n";
  }
  // For the compiler as well, and only where the linter goes.
  for (const char* use : {"int y[] = {A9};\n", "#ifdef FOO\nint y[] = {A9};\n#endif\n"}) {
    auto request = Request("lint", {{"a.c", source + use + "int f(int x) { return x; }\n"}});
    request.mutable_limits()->set_cpu_ms(600);
    request.mutable_limits()->set_wall_ms(6000);
    request.mutable_limits()->set_memory_mb(256);
    EXPECT_NE(Name(Call(request)), "ok");
  }
}

TEST_F(Tools, RunTestsFindsTestProgramsAndSaysWhichFailed) {
  const auto result = Call(Request(
      "run_tests",
      {{"add.c", "int add(int a, int b) { return a + b; }\n"},
       {"test_good.c", "int add(int, int);\nint main(void) { return add(1, 2) != 3; }\n"},
       {"test_bad.c",
        "#include <assert.h>\nint add(int, int);\nint main(void) { assert(add(1, 1) == 3); }\n"},
       {"test_p.py", "assert 1 + 1 == 2\n"}}));
  EXPECT_EQ(result.tests_total(), 3u);
  EXPECT_EQ(result.tests_passed(), 2u);
  ASSERT_EQ(result.failures_size(), 1);
  EXPECT_EQ(result.failures(0).name(), "test_bad.c");
  EXPECT_THAT(result.text(), HasSubstr("2 of 3 tests passed\nfailed: test_bad.c"));
  EXPECT_EQ(Name(Call(Request("run_tests", {{"a.c", "int x;\n"}}))), "invalid");
}

TEST_F(Tools, RunTestsWithVisibleCasesShowsInputAndExpected) {
  v1::ToolRequest request =
      GradeRequest("int f(int x) { return x * x + (x == 3); }\n", LineGrading());
  request.set_tool("run_tests");
  const auto result = Call(request);
  EXPECT_EQ(Name(result), "failed");
  EXPECT_EQ(result.tests_passed(), 1u);
  EXPECT_EQ(result.tests_total(), 8u);
  EXPECT_THAT(
      result.text(),
      HasSubstr("1 of 8 tests passed\nfailed: case 1\n  input: 20\n  expected: 401\n  got: 400\n"));
}

TEST_F(Tools, AConfiguredCommandGetsItsArgumentAsOneWordAndChangesTheWorkspace) {
  const auto result = Call(
      Request("shell", {{"a.txt", "x\n"}},
              R"({"script":"cat a.txt > b.txt; rm a.txt; mkdir d; echo y > d/c; echo done"})"));
  EXPECT_EQ(Name(result), "ok");
  EXPECT_EQ(result.text(), "done\n");
  ASSERT_EQ(result.tree().files_size(), 2);
  EXPECT_EQ(result.tree().files(0).path(), "b.txt");
  EXPECT_EQ(result.tree().files(1).path(), "d/c");
  EXPECT_EQ(Name(Call(Request("shell", {}, "{}"))), "invalid");
}

TEST_F(Tools, AConfiguredCommandSeesOnlyItsFiles) {
  const auto result = Call(Request("only_a", {{"a.txt", "x\n"}, {"secret.txt", "x\n"}}));
  EXPECT_EQ(result.text(), "a.txt\n");
  EXPECT_EQ(result.tree().files_size(), 2) << "the others are still in the workspace";
}

TEST_F(Tools, AConfiguredTestCommandIsCounted) {
  const auto result = Call(Request("tap", {}));
  EXPECT_EQ(result.tests_passed(), 1u);
  EXPECT_EQ(result.tests_total(), 3u);
  ASSERT_EQ(result.failures_size(), 2);
  EXPECT_EQ(result.failures(0).name(), "second");
  EXPECT_EQ(result.failures(1).name(), "\xEF\xBF\xBD") << "what is no text would not arrive";
}

TEST_F(Tools, AnUnknownToolAndBadArgumentsAreTheAgents) {
  EXPECT_EQ(Name(Call(Request("fly", {}))), "invalid");
  const auto result = Call(Request("read_file", {}, "not json"));
  EXPECT_EQ(Name(result), "invalid");
  EXPECT_THAT(result.text(), HasSubstr("JSON"));
}

TEST_F(Tools, LargeFilesTravelThroughTheBlobStore) {
  const std::string large(100'000, 'x');
  const auto written =
      Call(Request("write_file", {}, fmt::format(R"({{"path":"big.txt","content":"{}"}})", large)));
  ASSERT_EQ(written.tree().files_size(), 1);
  EXPECT_FALSE(written.tree().files(0).has_content());
  v1::ToolRequest next = Request("shell", {}, R"({"script":"wc -c < big.txt"})");
  *next.mutable_tree() = written.tree();
  EXPECT_EQ(Call(next).text(), "100000\n");
  next.mutable_tree()->mutable_files(0)->set_hash(std::string(64, '0'));
  const auto lost = Call(next);
  EXPECT_EQ(Name(lost), "unavailable") << "a missing blob is ours";
  EXPECT_THAT(lost.cause(), HasSubstr("big.txt"));
}

TEST_F(Tools, TextIsCutToTheBudgetOfTheRequest) {
  v1::ToolRequest request = Request("shell", {}, R"({"script":"seq 100000"})");
  request.set_text_limit(300);
  const auto result = Call(request);
  EXPECT_LE(result.text().size(), 300u);
  EXPECT_TRUE(result.text().starts_with("1\n2\n"));
  EXPECT_TRUE(result.text().ends_with("100000\n"));
}

TEST_F(Tools, AWorkspaceThatDoesNotFitIsTheAgents) {
  v1::ToolRequest request =
      Request("shell", {{"big", std::string(3 << 20, 'x')}}, R"({"script":"ls"})");
  request.mutable_limits()->set_disk_mb(2);
  EXPECT_EQ(Name(Call(request)), "disk_limit");
}

TEST_F(Tools, AWorkspaceTooLargeToCollectIsTheAgents) {
  const auto result =
      Call(Request("shell", {}, R"({"script":"head -c 20000000 /dev/zero > big"})"));
  EXPECT_EQ(Name(result), "disk_limit");
}

TEST_F(Tools, AKeptBoxServesItsEpisodeOnlyAndHoldsNothingOver) {
  v1::ToolRequest request =
      Request("shell", {}, R"({"script":"touch left /tmp/left; (sleep 100 &); ls /tmp"})");
  request.mutable_episode()->set_task("t");
  request.set_keep_box(true);
  (void)Call(request);
  EXPECT_EQ(executor().kept_boxes(), 1u);
  v1::ToolRequest other = Request("shell", {}, R"({"script":"ls . /tmp"})");
  other.mutable_episode()->set_task("t");
  other.mutable_episode()->set_member(1);
  EXPECT_THAT(Call(other).text(), Not(HasSubstr("left")));
  EXPECT_EQ(executor().kept_boxes(), 1u);
  v1::ToolRequest again =
      Request("shell", {{"a.txt", "x"}}, R"({"script":"ls . /tmp; ps 2>/dev/null"})");
  *again.mutable_episode() = request.episode();
  const auto result = Call(again);
  EXPECT_THAT(result.text(), HasSubstr("a.txt"));
  EXPECT_THAT(result.text(), Not(HasSubstr("left")));
  EXPECT_EQ(executor().kept_boxes(), 0u) << "its last call did not ask to keep it";
}

TEST_F(Tools, CancelEndsWhatRunsAndWhatWaits) {
  v1::ToolRequest request = Request("shell", {}, R"({"script":"sleep 100"})");
  request.mutable_limits()->set_wall_ms(60'000);
  request.mutable_episode()->set_task("abandoned");
  for (int i = 0; i < 4; ++i) executor().Submit(request, next_tag_++);
  executor().Cancel(request.episode());
  for (int i = 0; i < 4; ++i) {
    const auto result = Await();
    EXPECT_EQ(Name(result), "unavailable");
    EXPECT_EQ(result.cause(), "it was cancelled");
  }
  EXPECT_EQ(Name(Call(Request("shell", {}, R"({"script":"true"})"))), "ok");
}

}  // namespace
}  // namespace tidemill
