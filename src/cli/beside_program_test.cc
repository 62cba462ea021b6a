// `tidemill sim` and `tidemill bench` become programs that lie beside the binary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/test_folders.h"
#include "tests/program.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

TEST(ProgramsBeside, DoWhatTheCommandWasAskedFor) {
  const ProcessOutput one = RunTidemill("sim --seed 7", "2>/dev/null");
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_THAT(one.output, HasSubstr("1 seed, no guarantee broken"));
  const ProcessOutput json = RunTidemill("--log-level error sim --seed 7 --json", "2>/dev/null");
  EXPECT_THAT(json.output, HasSubstr("\"first_seed\":7"));
}

TEST(ProgramsBeside, TheirWordsAreKnownWithoutThem) {
  EXPECT_THAT(RunTidemill("sim --help").output, HasSubstr("--first-seed"));
  EXPECT_THAT(RunTidemill("bench --help").output, HasSubstr("gateway-load"));
  EXPECT_THAT(RunTidemill("bench memory --help").output, HasSubstr("nearest by hidden states"));
  const ProcessOutput wrong = RunTidemill("sim --sede 7");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("Did you mean \"--seed\"?"));
}

TEST(ProgramsBeside, TheirExitStatusesPassThrough) {
  const TemporaryDirectory folder;
  const ProcessOutput there = RunTidemill("bench disk --folder " + folder.path());
  EXPECT_EQ(there.exit_code, 1);
  EXPECT_THAT(there.output, HasSubstr("choose another folder"));
  EXPECT_EQ(RunTidemill("bench overlap --settings fast:1:2").exit_code, 2);
}

TEST(ProgramsBeside, SignalsReachThem) {
  const TemporaryDirectory folder;
  BackgroundProgram program("sim --seconds 1000", {.log = folder / "log"});
  ASSERT_TRUE(Eventually([&] { return program.Log().find("first seed") != std::string::npos; },
                         std::chrono::seconds(60)));
  EXPECT_EQ(program.Stop(SIGTERM), 128 + SIGTERM);
}

TEST(ProgramsBeside, OneThatIsMissingIsNamedWithWhatInstallsIt) {
  // It looks in the two folders above its own, too.
  const std::string top = BinaryDir() + "/program_without_others", alone = top + "/a/b";
  std::filesystem::remove_all(top);
  std::filesystem::create_directories(alone);
  std::filesystem::create_hard_link(BinaryDir() + "/tidemill", alone + "/tidemill");
  const ProcessOutput result =
      RunProcess({"sh", "-c", alone + "/tidemill sim --seed 7 2>&1"}, std::chrono::seconds(60));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr(alone + "/libexec/tidemill/tidemill-sim: cannot run it: "
                                               "No such file or directory. `make program`"));
  std::filesystem::remove_all(top);
}

}  // namespace
}  // namespace tidemill
