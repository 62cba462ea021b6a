#include "planner/planned_run.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

// Every step of the engine takes as long as every other, whatever it draws.
ServiceTimes Simple(uint32_t tokens, double call_s, double grade_s) {
  ServiceTimes times;
  EpisodeScript script;
  script.prompt = 10;
  if (call_s > 0) script.turns.push_back({tokens, 5, {{"compile", call_s}}});
  script.turns.push_back({tokens, 0, {}});
  script.grade_s = grade_s;
  for (int i = 0; i < 4; ++i) {
    TaskScripts scripts(2, script);
    scripts[1].reward = 1;
    times.tasks.push_back(scripts);
  }
  times.engine = {.step_s = 0.01, .rows_max = 64};
  times.store = {.sync_s = 1e-4};
  return times;
}

RunConfig Config() {
  RunConfig config;
  config.rollout.group_size = 4;
  config.rollout.groups_per_step = 8;
  config.rollout.max_in_flight = 256;
  config.staleness.max_steps = 8;
  config.staleness.hard_max_steps = 100;
  config.replay.drop_zero_variance = false;
  config.run.steps = 100;
  return config;
}

const PortShare& Port(const PlanReport& report, const std::string& name) {
  for (const PortShare& port : report.ports) {
    if (port.name == name) return port;
  }
  ADD_FAILURE() << "no port " << name;
  return report.ports.front();
}

TEST(PlannedRun, AnEngineThatIsFullBoundsItByItsStep) {
  // 64 rows draw 50 tokens in half a second each.
  const ServiceTimes times = Simple(50, 0, 0);
  const auto report = RunPlan(Config(), {.tool_slots = 64, .grade_slots = 64}, times, PlanLimits());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->bound, "engine");
  EXPECT_TRUE(report->rates_hold);
  EXPECT_NEAR(report->trained_episodes_per_s, 64 / 0.5, 0.03 * 128);
  EXPECT_NEAR(report->generated_tokens_per_s, 6400, 0.03 * 6400);
  EXPECT_GT(Port(*report, "engine").busy, 0.97);
}

TEST(PlannedRun, TwoEnginesDrawTwiceAsMuch) {
  const auto report = RunPlan(Config(), {.engines = 2, .tool_slots = 64, .grade_slots = 64},
                              Simple(50, 0, 0), PlanLimits());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_NEAR(report->generated_tokens_per_s, 12800, 0.04 * 12800);
}

TEST(PlannedRun, ATrainerThatIsSlowBoundsItAndTokensAreAsOldAsAdmissionLetsThemBe) {
  ServiceTimes times = Simple(50, 0, 0);
  times.trainer.step_s = 1.5;
  times.trainer.publish_s = 0.5;
  RunConfig config = Config();
  config.staleness.max_steps = 4;
  const auto report = RunPlan(config, {.tool_slots = 64, .grade_slots = 64}, times, PlanLimits());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->bound, "trainer");
  EXPECT_NEAR(report->step_s, 2, 0.02);
  EXPECT_NEAR(report->trained_episodes_per_s, 32 / 2.0, 0.3);
  EXPECT_GT(report->lag_mean, 3);
  EXPECT_LE(report->lag_p99, 4);
}

TEST(PlannedRun, SlotsForCallsBoundItByTheirWork) {
  const auto report =
      RunPlan(Config(), {.tool_slots = 10, .grade_slots = 64}, Simple(5, 1, 0), PlanLimits());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->bound, "calls");
  EXPECT_NEAR(report->trained_episodes_per_s, 10, 0.3);
}

TEST(PlannedRun, CoresAreSharedByAllThatRunsOnOneMachine) {
  // An episode takes a core for a second of its call and one of its grading; the slots would do
  // four times as many.
  const auto report =
      RunPlan(Config(), {.one_machine = true, .cores = 2, .tool_slots = 8, .grade_slots = 8},
              Simple(1, 1, 1), PlanLimits());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_NEAR(report->trained_episodes_per_s, 1, 0.05);
  EXPECT_GT(Port(*report, "cores").busy, 0.97);
}

TEST(PlannedRun, InSyncModeAStepIsOnePartAfterTheOther) {
  ServiceTimes times = Simple(50, 0, 1);
  times.trainer.step_s = 2;
  times.trainer.publish_s = 0.25;
  RunConfig config = Config();
  config.run.mode = "sync";
  const auto report = RunPlan(config, {.tool_slots = 64, .grade_slots = 64}, times, PlanLimits());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  // 32 episodes draw together for 0.5 s, are graded together for 1 s, then trained on.
  EXPECT_NEAR(report->step_s, 0.5 + 1 + 2.25, 0.08);
  EXPECT_EQ(report->lag_mean, 0);
}

TEST(PlannedRun, APartOfALargeFleetStandsForAllOfIt) {
  ServiceTimes times = Simple(20, 0.5, 0.2);
  times.tasks[1][0].turns[0].tokens = 90;
  times.engine.rows_max = 8;
  times.trainer.token_s = 2e-5;
  RunConfig config = Config();
  config.rollout.groups_per_step = 64;
  config.rollout.max_in_flight = 1024;
  const PlanLayout layout{.engines = 64, .tool_slots = 512, .grade_slots = 512};
  const auto all = RunPlan(config, layout, times, {.by_part = false});
  const auto part = RunPlan(config, layout, times, PlanLimits());
  ASSERT_TRUE(all.ok() && part.ok());
  EXPECT_EQ(all->part, 1u);
  EXPECT_EQ(part->part, 4u);
  EXPECT_NEAR(part->trained_episodes_per_s, all->trained_episodes_per_s,
              0.03 * all->trained_episodes_per_s);
  EXPECT_NEAR(part->lag_mean, all->lag_mean, 0.3);
  EXPECT_NEAR(Port(*part, "engine").busy, Port(*all, "engine").busy, 0.03);
}

TEST(PlannedRun, TheSameSeedGivesTheSamePlan) {
  ServiceTimes times = Simple(20, 0.3, 0.2);
  times.tasks[1][0].turns[0].tokens = 70;
  const PlanLayout layout{.engines = 2, .tool_slots = 8, .grade_slots = 8};
  const auto a = RunPlan(Config(), layout, times, PlanLimits());
  const auto b = RunPlan(Config(), layout, times, PlanLimits());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->seconds, b->seconds);
  EXPECT_EQ(a->generated_tokens_per_s, b->generated_tokens_per_s);
  EXPECT_EQ(a->lag_mean, b->lag_mean);
}

TEST(PlannedRun, TimesWithoutEpisodesAreRefused) {
  EXPECT_EQ(RunPlan(Config(), PlanLayout(), ServiceTimes(), PlanLimits()).status().code(),
            Code::kInvalid);
}

}  // namespace
}  // namespace tidemill
