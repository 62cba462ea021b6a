// The program as a person starts it: words, exit status, which stream says what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/test_folders.h"
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

TEST(Program, PlansWhatAFleetWillDo) {
  const std::string words =
      "plan --model 0.5b --fleet 4xH200+64cpu --set rollout.max_in_flight=256 --episode turns=2";
  const ProcessOutput planned = RunTidemill(words + " --json", "2>/dev/null");
  ASSERT_EQ(planned.exit_code, 0);
  const auto json = nlohmann::json::parse(planned.output);
  EXPECT_GT(json["plan"]["trained_episodes_per_s"], 0);
  EXPECT_FALSE(json["plan"]["bound"].get<std::string>().empty());
  for (const auto& time : json["times"]) EXPECT_FALSE(time["from"].get<std::string>().empty());
  EXPECT_EQ(json["memory"].size(), 2u);
  const ProcessOutput wrong = RunTidemill("plan --model 0.5b --fleet 4xZ9");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("A100, H100, H200, L40S"));
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
  EXPECT_EQ(RunTidemill("--log-level loud").exit_code, 2);
  EXPECT_EQ(RunTidemill("--log-level loud doctor").exit_code, 2);
  EXPECT_EQ(RunTidemill("doctor --no-such-option").exit_code, 2);
}

TEST(Program, WithoutACommandItHelps) {
  const ProcessOutput alone = RunTidemill("", "2>/dev/null");
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_THAT(alone.output, HasSubstr("Evaluate a policy on tasks"));
  EXPECT_THAT(alone.output, HasSubstr("130 interrupted"));
  const ProcessOutput runs = RunTidemill("runs");
  EXPECT_EQ(runs.exit_code, 2) << "a part of a command is no command";
  EXPECT_THAT(runs.output, HasSubstr("Show transcripts"));
}

TEST(Program, AModelAndAConfigMayBeGivenWithAndWithoutTheirOption) {
  const TemporaryDirectory folder;
  const std::string shape = folder / "shape", config = folder / "run.toml";
  MustRun("tasks model --family cfunc --width 32 --layers 2 --heads 2 --feed-forward 64 --out " +
          shape);
  std::ofstream(config) << "[model]\npath = \"" << shape << "\"\n[tasks]\ntrain = \"x.jsonl\"\n";
  const std::string memory = " --memory 80GB --json";
  const ProcessOutput plan = RunTidemill("plan " + config + memory, "2>/dev/null");
  EXPECT_EQ(plan.exit_code, 0);
  EXPECT_THAT(plan.output, HasSubstr("\"fits\":true"));
  EXPECT_EQ(RunTidemill("plan --config " + config + memory, "2>/dev/null").output, plan.output);
  const std::string ids = " --ids 260,261 --json ";
  const ProcessOutput named =
      RunTidemill("model tokenize" + ids + "--model " + shape, "2>/dev/null");
  EXPECT_EQ(named.exit_code, 0);
  EXPECT_EQ(RunTidemill("model tokenize" + ids + shape, "2>/dev/null").output, named.output);
  for (const std::string model : {"--model ", ""}) {
    const ProcessOutput serve = RunTidemill("serve " + model + (folder / "none"));
    EXPECT_EQ(serve.exit_code, 2);
    EXPECT_THAT(serve.output, HasSubstr(folder / "none"));
  }
}

TEST(Program, TasksCheckFindsWhatIsNotThereAndTryGoesOnAfterABrokenTask) {
  const TemporaryDirectory folder;
  const ProcessOutput made = RunProcess(
      {"sh", "-c",
       "cd " + folder.path() +
           " && mkdir repo && echo x > repo/a.txt && git init -q past && cd past && echo y > b.txt "
           "&& git add b.txt && git -c user.name=a -c user.email=a@b commit -q -m one"},
      std::chrono::seconds(60));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  const auto task = [](const std::string& id, const std::string& workspace,
                       const std::string& command) {
    return "{\"id\":\"" + id + "\",\"prompt\":\"p\",\"workspace\":{" + workspace +
           "},\"grading\":{\"command\":[\"sh\",\"-c\",\"" + command +
           "\"],\"trusted\":true},\"solution\":{\"files\":{\"done\":\"x\"}}}\n";
  };
  const std::string repo = "\"folder\":\"repo\"", file = folder / "tasks.jsonl";
  std::ofstream(file) << task("good", repo, "test -f done")
                      << task("gone", "\"folder\":\"gone\"", "test -f done")
                      << task("old", "\"git\":\"past\",\"commit\":\"v9\"", "test -f done")
                      << task("broken", repo, "echo no compiler here; exit 3");
  const ProcessOutput checked = RunTidemill("tasks check " + file);
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(checked.output, HasSubstr(file + ":2: task gone: the folder gone"));
  EXPECT_THAT(checked.output, HasSubstr(file + ":3: task old: the repository past at v9"));
  EXPECT_THAT(checked.output, HasSubstr("has no commit \"v9\""));
  EXPECT_THAT(checked.output, HasSubstr("4 tasks, 4 tasks graded by a command, 2 errors"));
  const ProcessOutput tried = RunTidemill("tasks try --all " + file);
  EXPECT_EQ(tried.exit_code, 1);
  EXPECT_THAT(tried.output, HasSubstr("gone: no such folder"));
  EXPECT_THAT(tried.output, HasSubstr("no compiler here")) << "why its grading failed";
  EXPECT_THAT(tried.output, HasSubstr("1 of 4 tasks are sound"));
  std::ofstream(file) << "{\n \"id\": \"a\",\n \"prompt\": \"p\"\n}\n";
  EXPECT_THAT(RunTidemill("tasks check " + file).output, HasSubstr("one object per line: jq -c"));
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

TEST(Program, AShapeIsNotWrittenOverAModelWithWeights) {
  for (const auto& [words, weights] :
       {std::pair{"tasks model --family cfunc --layers 1", "model.safetensors"},
        std::pair{"judge model --layers 1", "model-00001-of-00002.safetensors"}}) {
    const TemporaryDirectory folder;
    const std::string make = std::string(words) + " --out " + folder.path() + "/m";
    SCOPED_TRACE(make);
    EXPECT_EQ(RunTidemill(make).exit_code, 0);
    std::ofstream(folder.path() + "/m/" + weights) << "weights";
    const std::string config = TextOf(folder / "m/config.json");
    const ProcessOutput refused = RunTidemill(make + " --heads 2");
    EXPECT_NE(refused.exit_code, 0);
    EXPECT_THAT(refused.output, HasSubstr("/m holds a model with weights"));
    EXPECT_EQ(TextOf(folder / "m/config.json"), config);
  }
}

TEST(Program, AShapeWithoutWeightsSaysHowThereWillBeSome) {
  const TemporaryDirectory folder;
  const std::string shape = folder.path() + "/m";
  EXPECT_EQ(RunTidemill("tasks model --family cfunc --layers 1 --out " + shape).exit_code, 0);
  const ProcessOutput refused = RunTidemill("model score " + shape + " --ids 1,2");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("tidemill warmup --from-config " + shape));
}

TEST(Program, TagsAndTheNoteOfARunAreChangedShownAndListed) {
  TemporaryDirectory folder;
  for (const char* run : {"a", "b"}) {
    std::filesystem::create_directories(folder / run);
    std::ofstream(folder / run + "/config.toml") << "";
  }
  const auto runs = [&](const std::string& words) {
    return RunTidemill("runs --folder " + folder.path() + " " + words, "2>/dev/null");
  };
  const ProcessOutput changed =
      runs("note a --tag sweep --tag best --note $(printf '\\033')x --json");
  EXPECT_EQ(changed.exit_code, 2) << "a control character; nothing was changed";
  EXPECT_EQ(runs("note a --tag sweep --tag best --note 'lr halved'").output,
            "tags: best sweep\nlr halved\n");
  EXPECT_EQ(runs("note a --untag best --tag 0.5b").output, "tags: 0.5b sweep\nlr halved\n");
  EXPECT_EQ(runs("note a --untag best").exit_code, 2) << "it has none";
  const auto json = nlohmann::json::parse(runs("note a --json").output);
  EXPECT_EQ(json["tags"], nlohmann::json({"0.5b", "sweep"}));
  EXPECT_EQ(json["note"], "lr halved");
  const auto listed = nlohmann::json::parse(runs("list --tag sweep --json").output)["runs"];
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["run"], "a");
  EXPECT_EQ(listed[0]["note"], "lr halved");
  EXPECT_EQ(runs("note a --note ''").output, "tags: 0.5b sweep\n");
}

TEST(Program, RunsOnAFastBlas) {
  const ProcessOutput result = RunTidemill("doctor --json", "2>/dev/null");
  const auto report = nlohmann::json::parse(result.output);
  EXPECT_EQ(report["checks"]["blas"]["finding"], "ok") << report["checks"]["blas"].dump();
}

}  // namespace
}  // namespace tidemill
