// The program as a person starts it: words, exit status, which stream says what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/test_folders.h"
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

TEST(Program, AMisspeltOptionOrCommandOfACommandGetsTheNearestOne) {
  const ProcessOutput option = RunTidemill("warmup --modle x");
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.output,
              HasSubstr("tidemill warmup: unknown option \"--modle\". Did you mean \"--model\"?"));
  const ProcessOutput command = RunTidemill("runs epsodes");
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_THAT(command.output,
              HasSubstr("tidemill runs: unknown command \"epsodes\". Did you mean \"episodes\"?"));
}

TEST(Program, InitWritesAConfigThatTrainUnderstands) {
  const TemporaryDirectory folder;
  const std::string chat = folder / "chat.toml", demo = folder / "demo.toml";
  const ProcessOutput made = RunTidemill("init --model my_qwen2 --tasks my.jsonl --out " + chat);
  ASSERT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(made.output, HasSubstr("my_qwen2 is not there yet"));
  const ProcessOutput shown = RunTidemill("train " + chat + " --show-config", "2>/dev/null");
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.output, HasSubstr("path = \"my_qwen2\""));
  EXPECT_THAT(TextOf(chat), HasSubstr("# lora_rank = 16"));
  ASSERT_EQ(RunTidemill("init --demo --out " + demo).exit_code, 0);
  EXPECT_EQ(RunTidemill("train " + demo + " --show-config", "2>/dev/null").exit_code, 0);
  EXPECT_EQ(RunTidemill("init --demo --out " + demo).exit_code, 2) << "it would be replaced";
  EXPECT_EQ(RunTidemill("init").exit_code, 2);
}

TEST(Program, AShellCompletesCommandsOptionsKeysAndRuns) {
  const auto words = [](const std::string& typed) {
    return RunTidemill("completion words -- " + typed, "2>/dev/null").output;
  };
  EXPECT_EQ(words("doc"), "doctor\n");
  EXPECT_THAT(words("runs ''"), HasSubstr("export\n"));
  EXPECT_THAT(words("train --res"), StartsWith("--resume\n"));
  EXPECT_THAT(words("train --set rollout.group_s"), StartsWith("rollout.group_size=\n"));
  for (const char* shell : {"bash", "zsh"}) {
    const ProcessOutput script = RunTidemill(std::string("completion ") + shell, "2>/dev/null");
    EXPECT_EQ(script.exit_code, 0);
    EXPECT_THAT(script.output, HasSubstr("complete -o default -F _tidemill tidemill"));
  }
  // As bash itself completes, with the program on its path.
  const ProcessOutput asked = RunProcess(
      {"bash", "-c",
       "PATH=" + BinaryDir() +
           ":$PATH; source <(tidemill completion bash); "
           "COMP_WORDS=(tidemill runs exp); COMP_CWORD=2; _tidemill; echo \"${COMPREPLY[@]}\""},
      std::chrono::seconds(60));
  EXPECT_EQ(asked.output, "export\n");
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
  EXPECT_THAT(TextOf(SourceDir() + "/docs/config.md"), HasSubstr(table.output))
      << "put the output of train --config-table into docs/config.md";
}

TEST(Program, RunsOnAFastBlas) {
  const ProcessOutput result = RunTidemill("doctor --json", "2>/dev/null");
  const auto report = nlohmann::json::parse(result.output);
  EXPECT_EQ(report["checks"]["blas"]["finding"], "ok") << report["checks"]["blas"].dump();
}

}  // namespace
}  // namespace tidemill
