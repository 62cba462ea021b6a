// `tidemill proof check` as a person starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/program.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class ProofProgram : public testing::Test {
 protected:
  ProcessOutput Check(const std::string& reference, const std::string& candidate,
                      const std::string& words) {
    std::ofstream(folder_ / "reference.c") << reference;
    std::ofstream(folder_ / "candidate.c") << candidate;
    return RunTidemill("proof check " + folder_ / "reference.c " + folder_ / "candidate.c " +
                       words);
  }

  TemporaryDirectory folder_;
  const std::string right_ = "int f(int a, int b) { return a > b ? a : b; }\n";
};

TEST_F(ProofProgram, ProvedIsZero) {
  const auto result =
      Check(right_, "int f(int x, int y) { if (x < y) return y; return x; }", "--range -40:40");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("proved"));
}

TEST_F(ProofProgram, RefutedIsOneWithTheInputsAndBothResults) {
  const auto result = Check(right_, "int f(int a, int b) { return a < b ? a : b; }",
                            "--range -40:40 --json --function f");
  EXPECT_EQ(result.exit_code, 1) << result.output;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["verdict"], "refuted");
  const int a = json["inputs"]["a"], b = json["inputs"]["b"];
  EXPECT_EQ(json["reference"]["value"], std::max(a, b));
  EXPECT_EQ(json["candidate"]["value"], std::min(a, b));
}

TEST_F(ProofProgram, UndefinedBehaviourIsNamed) {
  const auto result = Check("int f(int a, int b) { return b ? a / b : 0; }",
                            "int f(int a, int b) { return a / b; }", "--range -40:40 --json");
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_EQ(nlohmann::json::parse(result.output)["candidate"]["undefined"],
            "line 1: division by zero");
}

TEST_F(ProofProgram, UnknownIsThreeWithTheReason) {
  const auto result = Check(right_, "int f(int a, int b) { goto end; end: return a; }", "--json");
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_THAT(nlohmann::json::parse(result.output)["reason"], HasSubstr("goto"));
}

TEST_F(ProofProgram, WrongWordsFilesAndTextsAreTwo) {
  EXPECT_EQ(Check(right_, "This is not C.", "").exit_code, 2);
  EXPECT_EQ(Check("int f(int a { return a; }", right_, "").exit_code, 2);
  EXPECT_EQ(Check(right_, right_, "--function g").exit_code, 2);
  EXPECT_EQ(Check(right_, right_, "--range 5").exit_code, 2);
  EXPECT_EQ(Check(right_, right_, "--range 5:1").exit_code, 2);
  EXPECT_EQ(Check(right_, right_, "--bogus").exit_code, 2);
  EXPECT_EQ(RunTidemill("proof check /nowhere.c /nowhere.c").exit_code, 2);
  EXPECT_EQ(RunTidemill("proof check").exit_code, 2);
}

}  // namespace
}  // namespace tidemill
