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
  const auto report =
      RunPlan(Config(), {.tool_slots = 64, .grade_slots = 64}, times, PlanLimits());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->bound, "engine");
  EXPECT_NEAR(report->trained_episodes_per_s, 64 / 0.5, 0.03 * 128);
  EXPECT_NEAR(report->generated_tokens_per_s, 6400, 0.03 * 6400);
  EXPECT_GT(Port(*report, "engine").busy, 0.97);
}

}  // namespace
}  // namespace tidemill
