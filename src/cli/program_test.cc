// The program as a person starts it: words, exit status, which stream says what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/program.h"

namespace tidemill {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Program, SaysItsVersion) {
  const ProcessOutput result = RunTidemill("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, StartsWith("tidemill "));
  EXPECT_THAT(result.output, HasSubstr("libtorch "));
}

TEST(Program, AnUnknownCommandIsRefusedWithTheNearestOne) {
  const ProcessOutput result = RunTidemill("--log-level error doctro");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("unknown command \"doctro\". Did you mean \"doctor\"?"));
  EXPECT_EQ(RunTidemill("doctro", "2>/dev/null").output, "");
}

TEST(Program, WrongWordsHaveExitStatusTwo) {
  EXPECT_EQ(RunTidemill("").exit_code, 2);
  EXPECT_EQ(RunTidemill("--log-level loud doctor").exit_code, 2);
  EXPECT_EQ(RunTidemill("doctor --no-such-option").exit_code, 2);
}

TEST(Program, DoctorPrintsOneJsonObject) {
  const ProcessOutput result = RunTidemill("doctor --json", "2>/dev/null");
  const auto report = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << result.output;
  EXPECT_EQ(report["ready"] == true, result.exit_code == 0);
  EXPECT_TRUE(report["checks"]["blas"]["finding"].is_string());
}

TEST(Program, TheConfigPageHasEveryKeyAsTheProgramKnowsIt) {
  const ProcessOutput table = RunTidemill("train --config-table", "2>/dev/null");
  ASSERT_EQ(table.exit_code, 0);
  EXPECT_THAT(TextOf(TIDEMILL_SOURCE_DIR "/docs/config.md"), HasSubstr(table.output))
      << "put the output of train --config-table into docs/config.md";
}

TEST(Program, RunsOnAFastBlas) {
  const ProcessOutput result = RunTidemill("doctor --json", "2>/dev/null");
  const auto report = nlohmann::json::parse(result.output);
  EXPECT_EQ(report["checks"]["blas"]["finding"], "ok") << report["checks"]["blas"].dump();
}

}  // namespace
}  // namespace tidemill
