#include "planner/like_run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "store/run_directory.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

constexpr const char* kRunConfig =
    "[run]\nsteps = 8\n[rollout]\ngroup_size = 4\ngroups_per_step = 2\nmax_in_flight = 16\n"
    "[staleness]\nmax_steps = 1\n[replay]\ndrop_zero_variance = false\n";

// 64 episodes of 16 tasks, eight at once. Each draws 50 tokens in a second, calls a tool for 0.2 s,
// and draws 50 more.
class LikeRunTest : public testing::Test {
 protected:
  void SetUp() override {
    auto directory = RunDirectory::Create(dir_.path(), "r", kRunConfig);
    ASSERT_TRUE(directory.ok()) << directory.status().ToString();
    const auto db = OpenDb(directory->db_path());
    std::vector<StoreOp> ops;
    for (uint64_t group = 1; group <= 16; ++group) {
      ops.push_back(SampleGroup(group, "c"));
      for (uint32_t member = 0; member < 4; ++member) {
        const v1::TrajectoryId id = SampleId(group, member);
        ops.push_back(PutTrajectory{Episode(id, static_cast<int64_t>((group - 1) / 2) * 3000)});
        ops.push_back(PutVerdict{SampleVerdict(id, member % 2 == 0 ? 1.0 : 0.0)});
      }
    }
    std::vector<const StoreOp*> pointers;
    for (const StoreOp& op : ops) pointers.push_back(&op);
    ASSERT_TRUE(db->Apply(pointers).ok());
    std::ofstream metrics(directory->metrics_path());
    for (int step = 1; step <= 8; ++step) {
      metrics << R"({"time_ms":)" << 1000 + step * 3000
              << R"(,"kind":"step","seconds":0.5,"lag_mean":1.0})"
              << "\n";
    }
    metrics << R"({"time_ms":25000,"kind":"tick","seconds":24,"scored":64,"generated_tokens":6400,)"
            << R"("tool_requests":64,"gradings":64,"busy_port_engine":0.6,"busy_port_trainer":0.2,)"
            << R"("busy_port_boxes":0.25,"busy_port_store":0.05})"
            << "\n";
  }

  static v1::Trajectory Episode(const v1::TrajectoryId& id, int64_t at_ms) {
    v1::Trajectory trajectory = SampleTrajectory(id, 1, 1);
    trajectory.clear_turns();
    for (int turn = 0; turn < 2; ++turn) {
      v1::Turn& one = *trajectory.add_turns();
      for (int i = 0; i < 50; ++i) one.add_ids(1), one.add_logprobs(-1);
      v1::VersionRun& run = *one.add_versions();
      run.set_version(1), run.set_tokens(50);
      one.set_started_ms(1'700'000'000'000 + at_ms + turn * 1500);
      one.set_finished_ms(one.started_ms() + 1000);
      if (turn == 1) continue;
      v1::ToolCall& call = *one.add_calls();
      call.set_tool("run_tests");
      call.set_run_ms(200);
      for (int i = 0; i < 7; ++i) one.add_observation_ids(2);
    }
    return trajectory;
  }

  const TemporaryDirectory dir_;
};

TEST_F(LikeRunTest, EpisodesAreThoseOfItsDatabase) {
  const auto run = ReadLikeRun(dir_ / "r", 4);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  size_t episodes = 0;
  for (const TaskScripts& scripts : run->times.tasks) episodes += scripts.size();
  EXPECT_EQ(episodes, 64u);
  const EpisodeScript& one = run->times.tasks[0][0];
  ASSERT_EQ(one.turns.size(), 2u);
  EXPECT_EQ(one.turns[0].tokens, 50u);
  EXPECT_EQ(one.turns[0].observed, 7u);
  EXPECT_EQ(one.turns[0].calls.size(), 1u);
  for (const Origin& origin : run->times.origins) EXPECT_FALSE(origin.from.empty());
  EXPECT_EQ(run->config.rollout.group_size, 4u);
  EXPECT_NEAR(run->measured.episodes_per_s, 64 / 24.0, 1e-9);
}

TEST_F(LikeRunTest, ItsPlanHasPortsBusyForAsLongAsTheyWere) {
  const auto run = ReadLikeRun(dir_ / "r", 4);
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  const auto plan = RunPlan(run->config, run->layout, run->times, {.whole = true});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const std::map<std::string, double> measured = {{"engine", run->measured.engine_busy},
                                                  {"trainer", run->measured.trainer_busy},
                                                  {"boxes", run->measured.boxes_busy}};
  for (const PortShare& port : plan->ports) {
    const auto found = measured.find(port.name);
    if (found == measured.end()) continue;
    const double was = found->second / run->measured.episodes_per_s;
    EXPECT_NEAR(port.busy / plan->episodes_per_s, was, 0.15 * was) << port.name;
  }
}

TEST_F(LikeRunTest, ARunThatIsNotThereIsNamed) {
  const auto run = ReadLikeRun(dir_ / "other", 4);
  EXPECT_EQ(run.status().code(), Code::kNotFound);
  EXPECT_NE(run.status().message().find("other"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
