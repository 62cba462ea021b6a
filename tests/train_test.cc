// The whole line on this machine: real tasks, real boxes, a real (tiny) policy, through the program
// itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "store/run_db.h"
#include "tests/line_fixture.h"

extern char** environ;

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

using TrainTest = LineTest;

TEST_F(TrainTest, ARunGoesFromTasksToABetterPolicysCheckpoint) {
  const ProcessOutput result = Run(Train("whole", "--set run.steps=4 --set tasks.eval=" + folder_ +
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
  const ProcessOutput generated = Run("model generate --model " + checkpoint.string() +
                                          " --ids 260,261 --max-tokens 3 --greedy --json",
                                      "2>/dev/null");
  EXPECT_EQ(generated.exit_code, 0) << generated.output;
  EXPECT_TRUE(json::parse(generated.output, nullptr, false).contains("logprobs"));
  const ProcessOutput worst = Run("runs --folder " + folder_ + "/runs episodes whole --worst 2");
  EXPECT_EQ(worst.exit_code, 0);
  EXPECT_THAT(worst.output, HasSubstr("tests"));
  EXPECT_THAT(Run("runs --folder " + folder_ + "/runs list").output, HasSubstr("whole"));
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
    std::ifstream stream(std::string(TIDEMILL_SOURCE_DIR "/deploy/") + file);
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    std::set<std::string> names(std::sregex_token_iterator(text.begin(), text.end(), kName), {});
    EXPECT_FALSE(names.empty()) << file;
    for (const std::string& name : names) EXPECT_TRUE(columns.count(name)) << file << ": " << name;
  }
}

TEST_F(TrainTest, TheThreeModesAreTheSameCode) {
  for (const std::string mode : {"sync", "one-step"}) {
    const ProcessOutput result =
        Run(Train(mode, "--set run.steps=2 --mode " + mode), "2>/dev/null");
    ASSERT_EQ(result.exit_code, 0) << mode;
    EXPECT_EQ(Summary(result)["steps"], 2) << mode;
    // Synchronous: no token is older than the step that uses it.
    if (mode != "sync") continue;
    const std::vector<StepRow> steps = Reader(mode)->Steps(0, 10).value();
    for (const StepRow& step : steps) {
      const json metrics = json::parse(step.metrics_json);
      EXPECT_EQ(metrics.value("lag_max", 0.0), 0.0) << step.metrics_json;
    }
  }
}

// The run ends while calls still wait: what wakes their loops must not outlive them.
TEST_F(TrainTest, ARunWithSlowToolsEndsInOrder) {
  const ProcessOutput result =
      Run(Train("slow", "--set run.steps=2 --set tools.wait=50ms --set tools.wait_tail=2s"),
          "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_EQ(Summary(result)["steps"], 2);
}

TEST_F(TrainTest, MistakesInTheConfigAreNamedWithTheirPlace) {
  std::ofstream(folder_ + "/bad.toml") << "[rollout]\ngroup_sise = 4\n";
  ProcessOutput result = Run("train " + folder_ + "/bad.toml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("bad.toml:2"));
  EXPECT_THAT(result.output, HasSubstr("rollout.group_size"));
  result =
      Run("train --set model.path=/nowhere --set tasks.train=/nowhere --set run.folder=" + folder_ +
          "/x");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("/nowhere"));
  result = Run("train");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("model.path"));
}

TEST_F(TrainTest, PromptsThatLeaveNoRoomAreNamedAndTheNameStaysFree) {
  const ProcessOutput refused = Run(Train("short", "--set rollout.max_context=10"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("prompts do not fit into the context of 10 tokens"));
  const ProcessOutput again = Run(Train("short", "--set run.steps=1"), "2>/dev/null");
  EXPECT_EQ(again.exit_code, 0);
}

// A Hugging Face directory that was not made here, a JSONL and a tool of one's own.
TEST_F(TrainTest, AQwen2DirectoryIsTrainedOnTasksAndToolsOfOnesOwn) {
  const char* given = std::getenv("TIDEMILL_GOLDEN");
  const std::string golden = given != nullptr ? given : TIDEMILL_SOURCE_DIR "/tests/golden";
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
  const ProcessOutput result =
      Run(Train("own", words + " --set rollout.max_turn_tokens=8 " + folder_ + "/own.toml"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json told = json::parse(
      Run("runs episodes own --newest 1 --json --folder " + folder_ + "/runs", "2>/dev/null")
          .output);
  EXPECT_THAT(told["episodes"][0]["transcript"].get<std::string>(),
              HasSubstr(R"("properties": {"x": {"type": "string"}}, "required": ["x"])"));

  const ProcessOutput unknown = Run(Train("unknown", words));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("task one wants the tool \"f\"; there are: compile"));
  std::ofstream(folder_ + "/taken.toml")
      << "[[tools.command]]\nname = 'lint'\ncommand = ['true']\n";
  const ProcessOutput taken = Run(Train("taken", folder_ + "/taken.toml"));
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_THAT(taken.output, HasSubstr("tool \"lint\": the name is a built-in tool's"));
}

// Kills the program at random moments and resumes it until it is done.
TEST_F(TrainTest, ARunKilledAtAnyMomentGoesOnWithNothingLostOrUsedTwice) {
  std::mt19937 random(7);
  const std::string first =
      Train("killed", "--set run.steps=80 --set learner.checkpoint_every_steps=2");
  const std::string again =
      "--log-level warn train --json --no-web --resume " + folder_ + "/runs/killed";
  bool done = false;
  int kills = 0;
  for (int attempt = 0; attempt < 15 && !done; ++attempt) {
    const std::string command = std::string("exec " TIDEMILL_BINARY_DIR "/tidemill ") +
                                (attempt == 0 ? first : again) + " >/dev/null 2>&1";
    const char* argv[] = {"sh", "-c", command.c_str(), nullptr};
    pid_t pid = 0;
    ASSERT_EQ(posix_spawnp(&pid, "sh", nullptr, nullptr, const_cast<char**>(argv), environ), 0);
    const auto patience = std::chrono::milliseconds(attempt < 8 ? 300 + random() % 1500 : 120000);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    int status = 0;
    pid_t ended = 0;
    while (ended == 0 && std::chrono::steady_clock::now() < deadline) {
      ended = waitpid(pid, &status, WNOHANG);
      if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (ended == 0) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      ++kills;
      // Killed before the run's folder was whole: begin again.
      if (attempt == 0 && !fs::exists(folder_ + "/runs/killed/run.db"))
        attempt = -1, fs::remove_all(folder_ + "/runs/killed");
      continue;
    }
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "attempt " << attempt;
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
