// The program as a person starts it: words, exit status, which stream says what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/machine.h"

namespace tidemill {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// stdout alone where `shell_redirect` throws stderr away, and the other way round.
ProcessOutput Tidemill(const std::string& arguments, const std::string& redirect = "") {
  return RunProcess({"sh", "-c", TIDEMILL_BINARY_DIR "/tidemill " + arguments + " " + redirect},
                    std::chrono::seconds(60));
}

TEST(Program, SaysItsVersion) {
  const ProcessOutput result = Tidemill("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, StartsWith("tidemill "));
  EXPECT_THAT(result.output, HasSubstr("libtorch "));
}

TEST(Program, AnUnknownCommandIsRefusedWithTheNearestOne) {
  const ProcessOutput result = Tidemill("--log-level error doctro");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("no command \"doctro\". Did you mean \"doctor\"?"));
  EXPECT_EQ(Tidemill("doctro", "2>/dev/null").output, "");
}

TEST(Program, WrongWordsHaveExitStatusTwo) {
  EXPECT_EQ(Tidemill("").exit_code, 2);
  EXPECT_EQ(Tidemill("--log-level loud doctor").exit_code, 2);
  EXPECT_EQ(Tidemill("doctor --no-such-option").exit_code, 2);
}

TEST(Program, DoctorPrintsOneJsonObject) {
  const ProcessOutput result = Tidemill("doctor --json", "2>/dev/null");
  const auto report = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << result.output;
  EXPECT_EQ(report["ready"] == true, result.exit_code == 0);
  EXPECT_TRUE(report["checks"]["blas"]["finding"].is_string());
}

TEST(Program, TheTrainingPageHasEveryKeyAsTheProgramKnowsIt) {
  const ProcessOutput table = Tidemill("train --config-table", "2>/dev/null");
  ASSERT_EQ(table.exit_code, 0);
  std::ifstream page(TIDEMILL_SOURCE_DIR "/docs/training.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr(table.output))
      << "put the output of train --config-table into docs/training.md";
}

TEST(Program, RunsOnAFastBlas) {
  const ProcessOutput result = Tidemill("doctor --json", "2>/dev/null");
  const auto report = nlohmann::json::parse(result.output);
  EXPECT_EQ(report["checks"]["blas"]["finding"], "ok") << report["checks"]["blas"].dump();
}

}  // namespace
}  // namespace tidemill
