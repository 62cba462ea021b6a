#include "cli/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(Machine, TheCpuIsReadFromItsFlags) {
  const MachineCheck check =
      CheckCpu("processor\t: 0\nmodel name\t: Example 9\nflags\t\t: fpu avx2 fma avx512f\n", 4);
  EXPECT_EQ(check.finding, Finding::kGood);
  EXPECT_EQ(check.detail, "4 cores, Example 9; AVX2, FMA, AVX-512");
}

TEST(Machine, ACpuWithoutAvx2IsAWarning) {
  const MachineCheck check = CheckCpu("model name : Old\nflags : fpu sse4_2 avx2x\n", 1);
  EXPECT_EQ(check.finding, Finding::kWarning);
  EXPECT_THAT(check.detail, HasSubstr("1 core, Old; no AVX2"));
  EXPECT_FALSE(check.fix.empty());
}

TEST(Machine, Bfloat16IsMultipliedInFloat32WhateverTheCpuHas) {
  const MachineCheck plain = CheckBfloat16("flags : fpu avx2 fma\n");
  EXPECT_EQ(plain.finding, Finding::kInfo);
  EXPECT_EQ(plain.detail, "on the CPU: kept in bfloat16, multiplied in float32");
  const MachineCheck tiles = CheckBfloat16("flags : avx2 avx512_bf16 amx_bf16\n");
  EXPECT_EQ(tiles.detail, plain.detail + "; AVX-512 BF16, AMX BF16 is not used");
}

TEST(Machine, AProgramThatIsMissingComesWithItsPackage) {
  const MachineCheck check =
      CheckProgram({"no-such-program-here", {"--version"}, "a test", "a-package"});
  EXPECT_EQ(check.finding, Finding::kMissing);
  EXPECT_EQ(check.fix, "apt-get install a-package");
}

TEST(Machine, AProgramThatIsThereSaysItsVersion) {
  const MachineCheck check =
      CheckProgram({"sh", {"-c", "echo one 1.0; echo two"}, "a test", "dash"});
  EXPECT_EQ(check.finding, Finding::kGood);
  EXPECT_EQ(check.detail, "one 1.0");
}

TEST(Machine, ADiskThatIsNotThereIsMissing) {
  EXPECT_EQ(CheckDisk("/no/such/folder").finding, Finding::kMissing);
}

TEST(Machine, WhateverIsWrongComesWithAFix) {
  for (const MachineCheck& check : CheckMachine()) {
    EXPECT_FALSE(check.detail.empty()) << check.name;
    if (check.finding == Finding::kWarning || check.finding == Finding::kMissing) {
      EXPECT_FALSE(check.fix.empty()) << check.name;
    }
  }
}

TEST(RunProcess, GivesOutputAndExitStatus) {
  const ProcessOutput result =
      RunProcess({"sh", "-c", "echo out; echo err >&2; exit 3"}, seconds(30));
  EXPECT_TRUE(result.started);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\nerr\n");
}

TEST(RunProcess, KillsWhatTakesTooLong) {
  const ProcessOutput result = RunProcess({"sleep", "600"}, milliseconds(20));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + 9);
}

TEST(RunProcess, OutputIsBounded) {
  const ProcessOutput result = RunProcess({"head", "-c", "200000", "/dev/zero"}, seconds(30));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.size(), 64u << 10);
}

}  // namespace
}  // namespace tidemill
