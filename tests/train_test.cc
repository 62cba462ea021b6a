// The whole line on this machine: real tasks, real boxes, a real (tiny) policy, through the program
// itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "store/run_db.h"
#include "testing/test_folders.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

using TrainTest = LineTest;

TEST_F(TrainTest, ARunGoesFromTasksToABetterPolicysCheckpoint) {
  const ProcessOutput result =
      RunTidemill(Train("whole", "--set run.steps=4 --set tasks.eval=" + folder_ +
                                     "/eval.jsonl --set eval.samples=2"),
                  "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0);
  const json summary = Summary(result);
  EXPECT_EQ(summary["status"], "done");
  EXPECT_EQ(summary["steps"], 4);
  EXPECT_EQ(summary["lost"], 0);
  EXPECT_EQ(summary["eval"]["before"]["n"], 6);
  EXPECT_EQ(summary["eval"]["after"]["samples_per_task"], 2);
  EXPECT_TRUE(summary["busy"]["ports"].contains("engine"));
  const fs::path checkpoint = folder_ + "/runs/whole/checkpoints/step-00000004";
  EXPECT_TRUE(fs::exists(checkpoint / "model.safetensors"));
  // The checkpoint is a model like any other.
  const ProcessOutput generated = RunTidemill("model generate --model " + checkpoint.string() +
                                                  " --ids 260,261 --max-tokens 3 --greedy --json",
                                              "2>/dev/null");
  EXPECT_EQ(generated.exit_code, 0) << generated.output;
  EXPECT_TRUE(json::parse(generated.output, nullptr, false).contains("logprobs"));
  const ProcessOutput worst =
      RunTidemill("runs --folder " + folder_ + "/runs episodes whole --worst 2");
  EXPECT_EQ(worst.exit_code, 0);
  EXPECT_THAT(worst.output, HasSubstr("tests"));
  EXPECT_THAT(RunTidemill("runs --folder " + folder_ + "/runs list").output, HasSubstr("whole"));
  // Rules and panels that name columns of metrics.jsonl name real ones.
  std::set<std::string> columns;
  std::ifstream metrics(folder_ + "/runs/whole/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const json entry = json::parse(line);
    const std::string kind = entry.value("kind", "");
    for (const auto& [key, value] : entry.items()) {
      columns.insert("tidemill_" + std::string(kind == "tick" ? "run" : kind) + "_" + key);
    }
  }
  static const std::regex kName("tidemill_(step|run)_[a-z0-9_]+");
  for (const char* file : {"alerts.yml", "grafana-dashboard.json"}) {
    const std::string text = TextOf(SourceDir() + "/deploy/" + file);
    std::set<std::string> names(std::sregex_token_iterator(text.begin(), text.end(), kName), {});
    EXPECT_FALSE(names.empty()) << file;
    for (const std::string& name : names) EXPECT_TRUE(columns.count(name)) << file << ": " << name;
  }
}

TEST_F(TrainTest, ForPeopleItEndsWithTheGainAndHowToSeeThePageAgain) {
  std::string words =
      Train("people",
            "--set run.steps=2 --set eval.samples=1 --set tasks.eval=" + folder_ + "/eval.jsonl");
  words.replace(words.find("--json "), 7, "");
  const ProcessOutput result = RunTidemill(words, "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json summary = json::parse(TextOf(folder_ + "/runs/people/summary.json"));
  const auto percent = [&](const char* name) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f",
                  100 * summary["eval"][name]["pass_rate"].get<double>());
    return std::string(text);
  };
  EXPECT_THAT(result.output, HasSubstr(percent("before") + " -> " + percent("after") + " % of 6 "));
  EXPECT_THAT(result.output,
              HasSubstr("the page again: tidemill view " + folder_ + "/runs/people"));
  EXPECT_EQ(RunTidemill("runs show " + folder_ + "/runs/people").exit_code, 0);
}

TEST_F(TrainTest, TheThreeModesAreTheSameCode) {
  for (const std::string mode : {"sync", "one-step"}) {
    const ProcessOutput result =
        RunTidemill(Train(mode, "--set run.steps=2 --mode " + mode), "2>/dev/null");
    ASSERT_EQ(result.exit_code, 0) << mode;
    EXPECT_EQ(Summary(result)["steps"], 2) << mode;
    // Synchronous: no token is older than the step that uses it.
    if (mode != "sync") continue;
    for (const StepRow& step : Reader(mode)->Steps(0, 10).value()) {
      const json metrics = json::parse(step.metrics_json);
      EXPECT_EQ(metrics.value("lag_max", 0.0), 0.0) << step.metrics_json;
    }
  }
}

// The run ends while calls still wait: what wakes their loops must not outlive them.
TEST_F(TrainTest, ARunWithSlowToolsEndsInOrder) {
  const ProcessOutput result =
      RunTidemill(Train("slow", "--set run.steps=2 --set tools.wait=50ms --set tools.wait_tail=2s"),
                  "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_EQ(Summary(result)["steps"], 2);
}

TEST_F(TrainTest, AnInterruptedRunSavesItsLastStepAndBeginsNoEvaluation) {
  BackgroundProgram program(
      Train("interrupted", "--set run.steps=100000 --set tasks.eval=" + folder_ + "/eval.jsonl"),
      {folder_ + "/interrupted.log"});
  ASSERT_TRUE(Eventually([&] {
    const auto reader = RunReader::Open(folder_ + "/runs/interrupted/run.db");
    const auto steps = reader.ok() ? (*reader)->Steps(1, 1) : reader.status();
    return steps.ok() && !steps->empty();
  })) << program.Log();
  EXPECT_EQ(program.Stop(SIGINT), 130) << program.Log();
  const auto reader = Reader("interrupted");
  std::set<uint64_t> saved;
  for (const CheckpointRecord& checkpoint : *reader->Checkpoints()) saved.insert(checkpoint.step);
  EXPECT_TRUE(saved.count(reader->Counts()->steps)) << testing::PrintToString(saved);
  const uint64_t issued = reader->Books()->issued;
  for (uint64_t group = 1; group <= issued; ++group) {
    EXPECT_THAT(reader->Group(group)->lease.eval_name(), testing::Not(HasSubstr("after")));
  }
}

TEST_F(TrainTest, ADeletedRunDirectoryEndsTheRunAtOnceWithTheReason) {
  BackgroundProgram train(Train("deleted", "--set run.steps=100000"), {folder_ + "/deleted.log"});
  const std::string path = folder_ + "/runs/deleted";
  // It runs once the first line of metrics is there.
  ASSERT_TRUE(Eventually([&] {
    std::error_code none;
    const auto size = std::filesystem::file_size(path + "/metrics.jsonl", none);
    return !none && size > 0;
  }));
  std::filesystem::rename(path, path + ".moved");
  std::optional<int> ended;
  EXPECT_TRUE(Eventually([&] {
    ended = train.Ended();
    return ended.has_value();
  })) << "it goes on";
  EXPECT_NE(ended, 0);
  EXPECT_THAT(train.Log(), HasSubstr("deleted or replaced while the run wrote to it"));
}

TEST_F(TrainTest, MistakesInTheConfigAreNamedWithTheirPlace) {
  std::ofstream(folder_ + "/bad.toml") << "[rollout]\ngroup_sise = 4\n";
  ProcessOutput result = RunTidemill("train " + folder_ + "/bad.toml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("bad.toml:2"));
  EXPECT_THAT(result.output, HasSubstr("rollout.group_size"));
  result = RunTidemill(
      "train --set model.path=/nowhere --set tasks.train=/nowhere --set run.folder=" + folder_ +
      "/x");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("/nowhere"));
  result = RunTidemill("train");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("model.path"));
}

TEST_F(TrainTest, PromptsThatLeaveNoRoomAreNamedAndTheNameStaysFree) {
  const ProcessOutput refused = RunTidemill(Train("short", "--set rollout.max_context=10"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("prompts do not fit into the context of 10 tokens"));
  const ProcessOutput again = RunTidemill(Train("short", "--set run.steps=1"), "2>/dev/null");
  EXPECT_EQ(again.exit_code, 0);
}

// A Hugging Face directory that was not made here, a JSONL and a tool of one's own.
TEST_F(TrainTest, AQwen2DirectoryIsTrainedOnTasksAndToolsOfOnesOwn) {
  const char* given = std::getenv("TIDEMILL_GOLDEN");
  const std::string golden = given != nullptr ? given : SourceDir() + "/tests/golden";
  std::ofstream(folder_ + "/own.jsonl")
      << R"({"id":"one","prompt":"1","answer_file":"a.py","tools":["f"],)"
      << R"("grading":{"sources":["a.py"],"run":["python3","a.py"],)"
      << R"("cases":[{"input":"","expected":"1"}]}})"
      << "\n";
  std::ofstream(folder_ + "/own.toml")
      << "[[tools.command]]\nname = 'f'\ncommand = ['sort', '-o', '{x}', '{x}']\n";
  const std::string words = " --set model.path=" + golden + "/qwen2-tiny" +
                            " --set model.protocol=hermes --set tasks.train=" + folder_ +
                            "/own.jsonl --set run.steps=2 --set model.system_prompt=x";
  const ProcessOutput result = RunTidemill(
      Train("own", words + " --set rollout.max_turn_tokens=8 " + folder_ + "/own.toml"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json told =
      json::parse(RunTidemill("runs episodes own --newest 1 --json --folder " + folder_ + "/runs",
                              "2>/dev/null")
                      .output);
  EXPECT_THAT(told["episodes"][0]["transcript"].get<std::string>(),
              HasSubstr(R"("properties": {"x": {"type": "string"}}, "required": ["x"])"));

  const ProcessOutput unknown = RunTidemill(Train("unknown", words));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output,
              HasSubstr("task one requires the tool \"f\"; available tools: compile"));
  std::ofstream(folder_ + "/taken.toml")
      << "[[tools.command]]\nname = 'lint'\ncommand = ['true']\n";
  const ProcessOutput taken = RunTidemill(Train("taken", folder_ + "/taken.toml"));
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_THAT(taken.output, HasSubstr("tool \"lint\": the name is that of a built-in tool"));
}

// Kills the program at random moments and resumes it until it is done.
TEST_F(TrainTest, ARunKilledAtAnyMomentGoesOnWithNothingLostOrUsedTwice) {
  std::mt19937 random(7);
  // On a slow machine a member may be older than its group; none is left out for its age here.
  const std::string first = Train("killed",
                                  "--set run.steps=80 --set learner.checkpoint_every_steps=2 "
                                  "--set staleness.hard_max_steps=80");
  const std::string again =
      "--log-level warn train --json --no-web --resume " + folder_ + "/runs/killed";
  bool done = false;
  int kills = 0;
  std::chrono::milliseconds head_start{0};  // on a machine that starts programs slowly
  for (int attempt = 0; attempt < 15 && !done; ++attempt) {
    BackgroundProgram program(attempt == 0 ? first : again, {folder_ + "/killed.log"});
    const auto patience = std::chrono::milliseconds(attempt < 8 ? 300 + random() % 1500 : 120000);
    std::optional<int> ended;
    Eventually([&] { return (ended = program.Ended()).has_value(); }, head_start + patience);
    if (!ended) {
      program.Stop(SIGKILL);
      ++kills;
      // Killed before the run's folder was whole: begin again.
      if (attempt == 0 && !fs::exists(folder_ + "/runs/killed/run.db")) {
        attempt = -1, fs::remove_all(folder_ + "/runs/killed");
        head_start += std::chrono::seconds(1);
      }
      continue;
    }
    ASSERT_EQ(*ended, 0) << "attempt " << attempt << "\n" << program.Log();
    done = true;
  }
  ASSERT_TRUE(done);
  EXPECT_GT(kills, 0);
  auto reader = Reader("killed");
  const RunCounts counts = reader->Counts().value();
  EXPECT_EQ(counts.steps, 80u);
  // In the line that survived, every trajectory was used at most once, and each step used whole
  // groups.
  const std::vector<StepRow> steps = reader->Steps(0, 100).value();
  for (const StepRow& step : steps) EXPECT_EQ(step.used, 16u);
  EpisodeFilter used;
  used.purpose = v1::PURPOSE_TRAIN;
  uint64_t uses = 0;
  for (uint64_t offset = 0;; offset += 500) {
    const EpisodePage page = reader->Episodes(used, EpisodeSort::kOldest, {offset, 500}).value();
    for (const EpisodeRow& row : page.rows) {
      EXPECT_LE(row.uses, 1u);
      uses += row.uses;
    }
    if (page.rows.size() < 500) break;
  }
  EXPECT_EQ(uses, 80u * 16u);
  // No version was given twice: every step of the line has its own, and each is above the last.
  uint64_t version = 0;
  for (const StepRow& step : steps) {
    EXPECT_GT(step.version, version);
    version = step.version;
  }
  EXPECT_LE(version, counts.last_version);
  // No task was skipped: 320 groups and more over 60 tasks are at least five rounds through all.
  const std::vector<TaskStats> tasks = reader->Tasks(v1::PURPOSE_TRAIN).value();
  EXPECT_EQ(tasks.size(), 60u);
  for (const TaskStats& task : tasks) EXPECT_GE(task.episodes, 16u) << task.task;
  RealClock clock;
  EXPECT_TRUE(RunDb::Open(folder_ + "/runs/killed/run.db", clock).value()->CheckIntegrity().ok());
}

}  // namespace
}  // namespace tidemill
