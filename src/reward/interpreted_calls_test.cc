#include "reward/interpreted_calls.h"

#include <gtest/gtest.h>

#include "testbeds/cfunc_task.h"
#include "testing/tool_fixture.h"

namespace tidemill {
namespace {

v1::Task OneTask(uint64_t seed) {
  CfuncOptions options;
  options.count = 1;
  options.seed = seed;
  const auto problems = GenerateCfunc(options);
  TM_CHECK(problems.ok(), problems.status().message());
  return CfuncTasks(*problems, options).front();
}

v1::ToolResult RunExamples(ToolExecutor& executor, const v1::Task& task,
                           const std::string& answer) {
  Bell bell;
  executor.completions().Attach(bell);
  v1::ToolRequest request =
      Request("run_tests", {{"f.c", task.answer_prefix() + answer + task.answer_suffix()}});
  *request.mutable_grading() = task.examples();
  executor.Submit(std::move(request), 1);
  for (;;) {
    std::vector<ToolCompletion> done = executor.completions().TakeAll();
    if (!done.empty()) return std::move(done.front().result);
    TM_CHECK(bell.Wait(std::chrono::seconds(60)), "no tool answered in a minute");
  }
}

// All that an agent or a reward sees of it.
std::string Seen(const v1::ToolResult& result) {
  v1::ToolResult seen;
  seen.set_outcome(result.outcome());
  seen.set_text(result.text());
  seen.set_compiled(result.compiled());
  seen.set_tests_passed(result.tests_passed());
  seen.set_tests_total(result.tests_total());
  *seen.mutable_failures() = result.failures();
  *seen.mutable_diagnostics() = result.diagnostics();
  return seen.DebugString();
}

TEST(InterpretedCalls, GiveWhatABoxGives) {
  const RealClock clock;
  ToolExecutorOptions options;
  options.slots = options.grade_slots = 1;
  auto boxed = ToolExecutor::Create(options, nullptr, clock);
  if (!boxed.ok()) GTEST_SKIP() << boxed.status().message();
  options.tools.interpret = InterpretCalls;
  auto interpreted = ToolExecutor::Create(options, nullptr, clock);
  ASSERT_TRUE(interpreted.ok());
  const v1::Task task = OneTask(3);
  const std::string right = task.grading().specification().source().substr(
      task.answer_prefix().size(), task.grading().specification().source().size() -
                                       task.answer_prefix().size() - task.answer_suffix().size());
  for (const std::string& answer :
       {right, std::string("a+b"), std::string("a*7-b"), std::string("a/(b+1)"), std::string("a+"),
        std::string("a<b?a:b;int c=3;c"), std::string("abs(a)"), std::string("f(a,b-1)"),
        std::string("2147483647+a"), std::string("a;} int main(void) {return 0")}) {
    EXPECT_EQ(Seen(RunExamples(**boxed, task, answer)),
              Seen(RunExamples(**interpreted, task, answer)))
        << answer;
  }
}

TEST(InterpretedCalls, LeaveToTheBoxWhatOnlyItCanTell) {
  const v1::Task task = OneTask(3);
  const auto body = [](const std::string& text) {
    return "int f(int a, int b) {\n  " + text + "\n}\n";
  };
  const v1::Grading& examples = task.examples();
  EXPECT_TRUE(InterpretCalls(examples, body("return a+b;")));
  EXPECT_TRUE(InterpretCalls(examples, body("int s=0; for(int i=0;i<9;i++) s+=i; return s;")));
  for (const char* text :
       {"return a/0;", "while(1);", "return abs(a);", "return __builtin_popcount(a);", "return a+;",
        "int x; return x;", "return 2147483647+a*a+1;", "return f(b,a);"}) {
    EXPECT_FALSE(InterpretCalls(examples, body(text))) << text;
  }
  EXPECT_FALSE(InterpretCalls(examples, body("return a;") + "int main(void) { return 0; }\n"));
  EXPECT_FALSE(InterpretCalls(examples, "#define f g\n" + body("return a;")));
  v1::Grading other = examples;
  other.mutable_harness(0)->set_content("int main(void) { return 0; }\n");
  EXPECT_FALSE(InterpretCalls(other, body("return a+b;")));
  other = examples;
  other.mutable_cases(0)->set_input("1 2 3");
  EXPECT_FALSE(InterpretCalls(other, body("return a+b;")));
}

}  // namespace
}  // namespace tidemill
