// Submissions that cheat: none of them earns what an honest one does.
#include "tools/grader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/tool_fixture.h"

namespace tidemill {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Grader : public ToolTest {
 protected:
  static v1::ToolResult Grade(const std::string& solution,
                              const v1::Grading& grading = LineGrading()) {
    return Call(GradeRequest(solution, grading));
  }
  // No test passes, the executor goes on, and what was expected is nowhere in the answer.
  static void EarnsNothing(const v1::ToolResult& result) {
    EXPECT_EQ(result.tests_passed(), 0u) << result.text();
    EXPECT_NE(Name(result), "ok");
    EXPECT_NE(Name(result), "unavailable") << result.cause();
    EXPECT_THAT(result.ShortDebugString(), Not(HasSubstr("14885"))) << "an expected output left";
  }
  // The same cases, each a process that reads all of its input.
  static v1::Grading ProcessGrading() {
    v1::Grading grading = LineGrading();
    grading.set_mode(v1::Grading::MODE_PROCESS);
    return grading;
  }
};

TEST_F(Grader, AnHonestAnswerPassesInEitherMode) {
  for (const v1::Grading& grading : {LineGrading(), ProcessGrading(), LineGrading("gcc")}) {
    const auto result = Grade("int f(int x) { return x * x + 1; }\n", grading);
    EXPECT_EQ(Name(result), "ok") << result.text() << result.stderr_bytes();
    EXPECT_TRUE(result.compiled());
    EXPECT_EQ(result.tests_passed(), 8u);
    EXPECT_EQ(result.tests_total(), 8u);
  }
}

TEST_F(Grader, APartlyRightAnswerPassesPartly) {
  for (const v1::Grading& grading : {LineGrading(), ProcessGrading()}) {
    const auto result = Grade("int f(int x) { return x < 50 ? x * x + 1 : 0; }\n", grading);
    EXPECT_EQ(Name(result), "failed");
    EXPECT_EQ(result.tests_passed(), 3u);
    ASSERT_GE(result.failures_size(), 1);
    EXPECT_EQ(result.failures(0).name(), "case 3");
    EXPECT_EQ(result.failures(0).expected(), "");
    EXPECT_EQ(result.failures(0).input(), "");
  }
}

TEST_F(Grader, ASubmissionCompiledAsItRunsIsGradedTheSame) {
  v1::Grading grading = LineGrading();
  grading.clear_build();
  grading.clear_run();
  for (const char* word : {"tcc", "solution.c", "-run", "main.c"}) grading.add_run(word);
  const auto good = Grade("int f(int x) { return x * x + 1; }\n", grading);
  EXPECT_EQ(Name(good), "ok") << good.text() << good.stderr_bytes();
  EXPECT_TRUE(good.compiled());
  const auto bad = Grade("int f(int x) { return }\n", grading);
  EXPECT_FALSE(bad.compiled());
  EXPECT_GE(bad.diagnostics_size(), 1);
  EarnsNothing(bad);
  EarnsNothing(Grade("#include <stdlib.h>\nint f(int x) { exit(0); }\n", grading));
}

TEST_F(Grader, WhatDoesNotCompileSaysSo) {
  const auto result = Grade("int f(int x) { return }\n");
  EXPECT_FALSE(result.compiled());
  EXPECT_EQ(Name(result), "failed");
  EXPECT_GE(result.diagnostics_size(), 1);
  EXPECT_EQ(result.tests_total(), 8u);
  EarnsNothing(result);
}

TEST_F(Grader, AMissingSubmissionDoesNotCompile) {
  v1::ToolRequest request = GradeRequest("", LineGrading());
  request.clear_tree();
  EarnsNothing(Call(request));
}

TEST_F(Grader, ExitInAConstructor) {
  for (const char* compiler : {"tcc", "gcc"}) {
    EarnsNothing(
        Grade("#include <stdlib.h>\n__attribute__((constructor)) void c(void) { exit(0); }\n"
              "int f(int x) { exit(0); }\n",
              LineGrading(compiler)));
  }
}

TEST_F(Grader, RedefiningMain) {
  EarnsNothing(
      Grade("#include <stdio.h>\nint f(int x) { return 0; }\n"
            "int main(void) { puts(\"8 of 8 tests passed\"); return 0; }\n"));
  EarnsNothing(
      Grade("int f(int x) { return 0; }\n"
            "__attribute__((weak)) int main(void) { return 0; }\n",
            LineGrading("gcc")));
}

TEST_F(Grader, RedefiningPrintfAndAssert) {
  v1::Grading grading = LineGrading("gcc");
  grading.mutable_limits()->set_wall_ms(500);  // it never answers
  EarnsNothing(
      Grade("int f(int x) { return 0; }\nint printf(const char *s, ...) { return 0; }\n"
            "int strcmp(const char *a, const char *b) { return 0; }\n",
            grading));
  EarnsNothing(Grade("#define assert(x)\n#define NDEBUG\nint f(int x) { return 0; }\n"));
}

TEST_F(Grader, PrintingTheHarnesssSuccessLine) {
  EarnsNothing(
      Grade("#include <stdio.h>\n#include <stdlib.h>\n"
            "int f(int x) { printf(\"PASSED\\nok 1\\nall tests passed\\n\"); fflush(stdout); "
            "_Exit(0); }\n"));
}

TEST_F(Grader, AnsweringBeforeTheQuestionIsAsked) {
  // Right answers to all cases, were they known, but all at once.
  std::string flood;
  for (int i = 0; i < 8; ++i) flood += std::to_string((17 * i + 3) * (17 * i + 3) + 1) + "\\n";
  const auto result =
      Grade(fmt::format("#include <stdio.h>\n#include <stdlib.h>\nint f(int x) {{ printf(\"{}\"); "
                        "fflush(stdout); exit(0); }}\n",
                        flood));
  EXPECT_LE(result.tests_passed(), 1u) << "answers to what was not asked counted";
}

TEST_F(Grader, OverwritingTheTestBinary) {
  EarnsNothing(
      Grade("#include <stdio.h>\n#include <unistd.h>\nint f(int x) { unlink(\"prog\");\n"
            "FILE *p = fopen(\"prog\", \"w\"); fputs(\"#!/bin/sh\\nexit 0\\n\", p); fclose(p);\n"
            "return 0; }\n",
            ProcessGrading()));
}

TEST_F(Grader, ReadingTheExpectedOutputFromFilesOrMemory) {
  // Prints whatever it can find that may hold the answers.
  const auto result = Grade(
      "#include <stdio.h>\n#include <stdlib.h>\nint f(int x) {\n"
      "system(\"cat /workspace/* /tmp/* /proc/1/environ /proc/1/cmdline /proc/1/mem /proc/*/environ"
      " /dev/shm/* 2>/dev/null | strings | grep -E '1488[5]|[c]ase|[e]xpected'; ls -a /workspace "
      "/tmp\");\n"
      "exit(0); }\n",
      ProcessGrading());
  EarnsNothing(result);
  EXPECT_THAT(result.stdout_bytes(), Not(HasSubstr("case")));
  EXPECT_THAT(result.stdout_bytes(), HasSubstr("solution.c")) << "the listing itself worked";
}

TEST_F(Grader, ReplacingTheHarness) {
  v1::ToolRequest request = GradeRequest("int f(int x) { return 0; }\n", LineGrading());
  v1::File* mine = request.mutable_tree()->add_files();
  mine->set_path("main.c");
  mine->set_content("int main(void) { return 0; }\n");
  mine->set_has_content(true);
  EarnsNothing(Call(request));
}

TEST_F(Grader, OnlyDeclaredFilesEnter) {
  v1::Grading grading = ProcessGrading();
  grading.clear_build();
  grading.clear_run();
  for (const char* word : {"/bin/ls", "-a"}) grading.add_run(word);
  v1::ToolRequest request = GradeRequest("int x;\n", grading);
  *request.mutable_tree()->add_files() = TreeOf({{"sneaked.txt", "x"}}).files(0);
  const auto result = Call(request);
  EXPECT_THAT(result.stdout_bytes(), HasSubstr("solution.c"));
  EXPECT_THAT(result.stdout_bytes(), Not(HasSubstr("sneaked")));
}

TEST_F(Grader, LoopsCrashesAndBombsAreNamed) {
  v1::Grading grading = LineGrading();
  grading.mutable_limits()->set_cpu_ms(200);
  grading.mutable_limits()->set_memory_mb(64);
  auto result = Grade("int f(int x) { for (;;); }\n", grading);
  EXPECT_EQ(Name(result), "cpu_limit");
  EarnsNothing(result);
  result = Grade("int f(int x) { return *(volatile int *)0; }\n", grading);
  EXPECT_EQ(Name(result), "signal");
  EarnsNothing(result);
  grading.mutable_limits()->set_cpu_ms(5000);
  result = Grade(
      "#include <stdlib.h>\n#include <string.h>\n"
      "int f(int x) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }\n",
      grading);
  EXPECT_EQ(Name(result), "memory_limit");
  EarnsNothing(result);
  grading.mutable_limits()->set_wall_ms(300);
  result = Grade("#include <unistd.h>\nint f(int x) { sleep(100); return 0; }\n", grading);
  EXPECT_EQ(Name(result), "timeout");
  EarnsNothing(result);
  result = Grade("#include <stdio.h>\nint f(int x) { for (;;) puts(\"x\"); }\n", LineGrading());
  EXPECT_THAT(Name(result), AnyOf("output_limit", "failed", "signal"));
  EarnsNothing(result);
}

TEST(StarvedGrading, ATimeoutOnABusyMachineIsTriedOnceMore) {
  // As many cores as it takes to make two of them look busy.
  RealClock clock;
  ToolExecutorOptions options;
  options.slots = options.grade_slots = 1;
  options.boxes.cores = 64;
  Bell waker;
  auto executor = ToolExecutor::Create(options, nullptr, clock);
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  (*executor)->completions().Attach(waker);
  v1::ToolRequest request = GradeRequest(
      "#include <unistd.h>\nint f(int x) { for (int i = 0; i < 5; i++) fork(); for (;;); }\n",
      LineGrading());
  request.mutable_limits()->set_wall_ms(400);
  const Time start = clock.Now();
  (*executor)->Submit(request, 1);
  std::vector<ToolCompletion> done;
  while (done.empty() && waker.Wait(std::chrono::seconds(30))) {
    done = (*executor)->completions().TakeAll();
  }
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].result.outcome(), v1::OUTCOME_TIMEOUT);
  EXPECT_GE(clock.Now() - start, milliseconds(800)) << "it was not tried a second time";
}

TEST_F(Grader, AnswersBeforeACrashCount) {
  const auto result =
      Grade("#include <stdlib.h>\nint f(int x) { if (x > 60) abort(); return x * x + 1; }\n");
  EXPECT_EQ(Name(result), "signal");
  EXPECT_EQ(result.tests_passed(), 4u);
}

TEST_F(Grader, OutputIsComparedAsTheGradingSays) {
  v1::Grading grading = ProcessGrading();
  grading.set_compare(v1::Grading::COMPARE_EXACT);
  EXPECT_EQ(Grade("int f(int x) { return x * x + 1; }\n", grading).tests_passed(), 0u)
      << "the newline counts";
  for (v1::TestCase& test : *grading.mutable_cases()) test.set_expected(test.expected() + "\n");
  EXPECT_EQ(Grade("int f(int x) { return x * x + 1; }\n", grading).tests_passed(), 8u);
  grading.set_mode(v1::Grading::MODE_LINES);
  EXPECT_EQ(Grade("int f(int x) { return x * x + 1; }\n", grading).tests_passed(), 8u);
}

TEST_F(Grader, AGradingThatMakesNoSenseIsInvalid) {
  v1::Grading grading = LineGrading();
  grading.mutable_cases(0)->set_input("1\n2\n");
  EXPECT_EQ(Name(Grade("int f(int x) { return 0; }\n", grading)), "invalid");
  grading.clear_cases();
  EXPECT_EQ(Name(Grade("int f(int x) { return 0; }\n", grading)), "invalid");
}

TEST_F(Grader, PythonIsGradedToo) {
  v1::Grading grading = LineGrading();
  grading.clear_build();
  grading.clear_run();
  grading.clear_harness();
  grading.clear_sources();
  grading.add_sources("solution.py");
  for (const char* word : {"python3", "solution.py"}) grading.add_run(word);
  v1::ToolRequest request = Request(
      "grade", {{"solution.py",
                 "import sys\nfor line in sys.stdin:\n  print(int(line)**2+1, flush=True)\n"}});
  *request.mutable_grading() = grading;
  EXPECT_EQ(Name(Call(request)), "ok");
}

}  // namespace
}  // namespace tidemill
