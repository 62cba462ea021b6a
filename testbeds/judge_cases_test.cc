// What tools say in the cases for judges is what the real ones say, in boxes, of the same programs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "testbeds/judge_cases.h"
#include "testing/tool_fixture.h"

namespace tidemill {
namespace {

// Which quotes a compiler writes is a matter of the locale.
std::string Plain(std::string text) {
  for (const char* quote : {"\u2018", "\u2019"}) {
    for (size_t at; (at = text.find(quote)) != std::string::npos;) text.replace(at, 3, "'");
  }
  return text;
}

class JudgeCasesTest : public ToolTest {
 protected:
  // What run_tests says of f for one test.
  static std::string RunTests(const std::string& source, const std::string& input,
                              const std::string& expected) {
    v1::ToolRequest request = Request("run_tests", {{"f.c", source}});
    v1::Grading& grading = *request.mutable_grading();
    grading.add_sources("f.c");
    *grading.add_harness() =
        TreeOf({{"main.c",
                 "#include <stdio.h>\nint f(int a, int b);\nint main(void) {\n  int a, b;\n"
                 "  while (scanf(\"%d %d\", &a, &b) == 2) {\n    printf(\"%d\\n\", f(a, b));\n"
                 "    fflush(stdout);\n  }\n  return 0;\n}\n"}})
            .files(0);
    for (const char* word : {"tcc", "-o", "prog", "f.c", "main.c"}) grading.add_build(word);
    grading.add_run("./prog");
    grading.set_mode(v1::Grading::MODE_LINES);
    v1::TestCase& test = *grading.add_cases();
    test.set_name("f"), test.set_input(input), test.set_expected(expected);
    return Call(std::move(request)).text();
  }
};

TEST_F(JudgeCasesTest, WhatToolsSayIsWhatTheRealOnesSay) {
  JudgeCaseOptions options;
  options.misleading = 0;
  JudgeCaseWriter writer(options);
  const std::regex goal(R"(f\((-?\d+),(-?\d+)\)\D*?(-?\d+)\.)");
  const std::regex expression(R"((?:return |f is now )([^;}]*))");
  int passed = 0, failed = 0, broken = 0;
  for (int i = 0; i < 400 && (passed < 3 || failed < 3 || broken < 2); ++i) {
    const auto one = nlohmann::json::parse(writer.Next());
    const std::string next = one["next"], turn = one["turn"], prompt = one["prompt"];
    if (next.starts_with("compile failed")) {
      // Behind the error the compiler may warn of what else it sees.
      const std::string real = Plain(Call(Request("compile", {{"f.c", turn + "\n"}})).text());
      EXPECT_TRUE(real.starts_with(next)) << turn << "\n" << real << next;
      ++broken;
      continue;
    }
    const bool right = next.starts_with("1 of 1");
    if ((!right && !next.starts_with("0 of 1")) || (right ? passed : failed) >= 3) continue;
    std::smatch numbers, code;
    ASSERT_TRUE(std::regex_search(prompt, numbers, goal)) << prompt;
    ASSERT_TRUE(std::regex_search(turn, code, expression)) << turn;
    EXPECT_EQ(RunTests("int f(int a,int b){return " + code[1].str() + ";}\n",
                       numbers[1].str() + " " + numbers[2].str(), numbers[3].str()),
              next)
        << prompt << turn;
    ++(right ? passed : failed);
  }
  EXPECT_GE(passed, 3);
  EXPECT_GE(failed, 3);
  EXPECT_GE(broken, 2);
}

}  // namespace
}  // namespace tidemill
