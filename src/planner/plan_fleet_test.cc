#include "planner/plan_fleet.h"

#include <gtest/gtest.h>

#include <fstream>

#include "planner/gpu_times.h"
#include "planner/layout_search.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(PlanFleet, WordsSayHostsGpusAndCores) {
  const auto fleet = ReadPlanFleet("2x8xH200+64cpu", "");
  ASSERT_TRUE(fleet.ok());
  EXPECT_EQ(fleet->gpu, "H200");
  EXPECT_EQ(fleet->gpus, 16u);
  EXPECT_EQ(fleet->hosts, 2u);
  EXPECT_EQ(fleet->cores, 64u);
  EXPECT_FALSE(fleet->cores_assumed);
  const auto small = ReadPlanFleet("8xH100", "");
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->gpus, 8u);
  EXPECT_TRUE(small->cores_assumed);
  const auto cores = ReadPlanFleet("64cpu", "");
  ASSERT_TRUE(cores.ok());
  EXPECT_EQ(cores->gpus, 0u);
  for (const char* wrong : {"", "8", "8H100", "x8xH100", "8xH100+", "8xH10064cpu+", "0xH100"}) {
    EXPECT_EQ(ReadPlanFleet(wrong, "").status().code(), Code::kInvalid) << wrong;
  }
}

TEST(PlanFleet, AFleetFileSaysWhoHasTheGpus) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() + "/run.toml") << "";
  std::ofstream(folder.path() + "/fleet.toml")
      << "run = \"r\"\nconfig = \"run.toml\"\n[[workers]]\nrole = \"learner\"\ngpus = 2\n"
      << "[[workers]]\nrole = \"rollout\"\ncount = 6\ngpus = 1\n[[workers]]\nrole = \"tools\"\n"
      << "count = 3\ncores = 16\n[[workers]]\nrole = \"reward\"\n";
  const std::string path = folder.path() + "/fleet.toml";
  EXPECT_EQ(ReadPlanFleet(path, "").status().code(), Code::kInvalid);
  const auto fleet = ReadPlanFleet(path, "H100");
  ASSERT_TRUE(fleet.ok()) << fleet.status().ToString();
  EXPECT_EQ(fleet->engines, 6u);
  EXPECT_EQ(fleet->ranks, 2u);
  EXPECT_EQ(fleet->cores, 48u);
}

// The rates of docs/gpu.md come out again: 0.5B on an H200.
TEST(GpuTimes, ThatWereMeasuredComeOutAgain) {
  ModelConfig model;
  model.vocab_size = 151'936, model.hidden_size = 896, model.intermediate_size = 4864;
  model.num_layers = 24, model.num_heads = 14, model.num_kv_heads = 2, model.head_dim = 64;
  model.max_position_embeddings = 32'768;
  model.tie_word_embeddings = true;
  ServiceTimes times;
  ASSERT_TRUE(SetGpuTimes({.gpu = "H200", .gpus = 8}, RunConfig(), model, times).ok());
  const std::pair<double, double> kMeasured[] = {
      {64, 58'962}, {256, 166'026}, {512, 242'250}, {1024, 287'239}};
  for (const auto& [rows, rate] : kMeasured) {
    const double step =
        times.engine.step_s + rows * times.engine.row_s + rows * 256 * times.engine.context_s;
    EXPECT_NEAR(rows / step, rate, 0.1 * rate) << rows;
  }
  EXPECT_NEAR(1 / times.trainer.token_s, 139'925, 0.05 * 139'925);
  for (const Origin& origin : times.origins) EXPECT_FALSE(origin.from.empty()) << origin.what;
  const Status unknown = SetGpuTimes({.gpu = "Z9", .gpus = 8}, RunConfig(), model, times);
  EXPECT_NE(unknown.message().find("H100"), std::string::npos);
}

TEST(GpuTimes, WordsOfEpisodesAreChecked) {
  const auto guess = ParseEpisodeGuess("turns=8,tool_s=5");
  ASSERT_TRUE(guess.ok());
  EXPECT_EQ(guess->turns, 8u);
  EXPECT_EQ(guess->tool_s, 5);
  for (const char* wrong : {"turns", "turns=x", "speed=3", "turns=-1"}) {
    EXPECT_EQ(ParseEpisodeGuess(wrong).status().code(), Code::kInvalid) << wrong;
  }
}

// A trainer that takes four times as long as an engine for the same episodes gets more GPUs.
TEST(LayoutSearch, GivesTheSlowerPartMoreGpus) {
  RunConfig config;
  config.rollout.group_size = 4;
  config.rollout.groups_per_step = 8;
  config.rollout.max_in_flight = 128;
  config.replay.drop_zero_variance = false;
  LayoutSearch search;
  search.times = [](const PlanFleet&) -> Result<ServiceTimes> {
    ServiceTimes times;
    EpisodeScript script;
    script.turns.push_back({50, 0, {}});
    times.tasks = {{script}};
    times.engine = {.step_s = 0.01, .rows_max = 16};  // 32 episodes a second
    times.trainer.token_s = 1.0 / 51 / 8;             // 8 a second
    times.store.sync_s = 1e-4;
    return times;
  };
  const PlanFleet fleet{.gpu = "any", .gpus = 5, .cores = 64};
  const auto best = FindLayout(config, fleet, search);
  ASSERT_TRUE(best.ok()) << best.status().ToString();
  EXPECT_EQ(best->best.choice.ranks, 4u);
  EXPECT_NEAR(best->best.report.trained_episodes_per_s, 32, 2);
  EXPECT_LE(best->best.report.lag_mean, search.lag_max);
  ASSERT_TRUE(best->one_more_gpu.has_value());
  EXPECT_NEAR(best->ten_more_cores.report.trained_episodes_per_s, 32, 2);
}

}  // namespace
}  // namespace tidemill
