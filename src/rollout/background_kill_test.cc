// Tool workers die while episodes with background calls run: nothing is lost, nothing comes twice.
#include <gtest/gtest.h>

#include <set>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "rollout/rollout_loop.h"
#include "testing/bus_test_kit.h"
#include "testing/scripted_talk.h"
#include "testing/seeded_episodes.h"
#include "testing/test_kit.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

constexpr uint32_t kOfAGroup = 8, kGroupsKilled = 250;  // 2,000 episodes
constexpr Duration kDeadAfter = std::chrono::seconds(3);

// A tool worker with its port; what it holds is gone with it.
struct ToolWorker {
  ToolWorker(MemoryBus& bus, const VirtualClock& clock, int number)
      : port(clock, milliseconds(900)) {
    ToolLoopOptions options;
    options.worker = "tools-" + std::to_string(number);
    options.lease_period = kDeadAfter / 3;
    options.cache = 0;
    loop = std::make_unique<ToolLoop>(bus, port, options);
    loop->Attach(waker);
  }
  QuietWaker waker;
  SlowPort port;
  std::unique_ptr<ToolLoop> loop;
};

void CheckEpisode(const v1::Trajectory& trajectory, uint64_t& background, uint64_t& delivered) {
  const std::string own = "said to " + std::to_string(trajectory.id().group()) + "." +
                          std::to_string(trajectory.id().member()) + ".";
  std::set<std::string> told, cancelled;
  for (const v1::Turn& turn : trajectory.turns()) {
    for (const v1::ToolCall& call : turn.calls()) {
      const bool told_text = call.text().starts_with("said to ");
      EXPECT_TRUE(!told_text || call.text().starts_with(own)) << call.text();
      if (call.handle().empty()) continue;
      ++background;
      // It ended with its result, or because the episode or the agent did.
      EXPECT_TRUE(call.cancelled() || call.answered_ms() > 0) << call.handle();
      if (call.cancelled()) cancelled.insert(call.handle());
    }
    for (const std::string& handle : turn.delivered()) {
      EXPECT_TRUE(told.insert(handle).second) << handle << " was delivered twice";
      ++delivered;
    }
  }
  for (const std::string& handle : cancelled) EXPECT_EQ(told.count(handle), 0u);
}

TEST(BackgroundCallsWithKilledWorkers, NothingIsLostAndNothingIsDeliveredTwice) {
  QuietWaker waker;
  VirtualClock clock;
  MemoryBus bus(clock);
  EXPECT_TRUE(
      OpenStandardTopics(bus, {.lease = kDeadAfter, .capacity = 10'000, .max_deliveries = 50})
          .ok());  // workers live for a few deliveries
  constexpr TokenId kTest = 20, kLint = 21, kWait = 22;
  SeededEngine engine({.shares = {{0, 0.06}, {kTest, 0.05}, {kLint, 0.02}, {kWait, 0.02}}});
  const ScriptedProtocol protocol({.calls = {{kTest, {"run_tests", R"({"background":true})"}},
                                             {kLint, {"lint", "{}"}},
                                             {kWait, {"wait", R"({"timeout_s":2})"}}}});
  RolloutOptions options;
  options.max_episodes = 2000;
  options.lease_period = kDeadAfter / 3;
  options.limits.background["run_tests"] = {.use = BackgroundUse::kAllowed};
  options.limits.jobs.jobs = 3;
  options.limits.tool_retries = 20;
  RolloutLoop rollout(bus, engine, protocol, clock, options);
  rollout.Attach(waker);
  for (uint64_t group = 1; group <= kGroupsKilled; ++group) {
    v1::GroupLease lease;
    lease.set_group(group), lease.set_members(kOfAGroup), lease.set_max_turns(5);
    lease.set_seed(MixHash(5, group));
    lease.mutable_task()->set_id("t" + std::to_string(group));
    lease.set_purpose(v1::PURPOSE_TRAIN);
    lease.mutable_sampling()->set_temperature(1);
    lease.mutable_sampling()->set_max_turn_tokens(80);
    EXPECT_TRUE(bus.Publish(kGroupsTopic, lease.SerializeAsString()).ok());
  }
  Random random(11);
  int started = 0, killed = 0;
  std::vector<std::unique_ptr<ToolWorker>> workers;
  std::set<std::pair<uint64_t, uint32_t>> finished;
  uint64_t background = 0, delivered = 0, given_up = 0;
  for (int tick = 0; tick < 20'000 && finished.size() < kGroupsKilled * kOfAGroup; ++tick) {
    if (workers.size() == 3 && random.Chance(0.02)) {
      ToolWorker& victim = *workers[random.Below(3)];
      bus.Unsubscribe(victim.waker);
      std::erase_if(workers, [&](const auto& one) { return one.get() == &victim; });
      ++killed;
    }
    while (workers.size() < 3) {
      workers.push_back(std::make_unique<ToolWorker>(bus, clock, ++started));
    }
    engine.Tick();
    for (const auto& worker : workers) worker->port.Tick();
    (void)rollout.Step(clock.Now());
    for (const auto& worker : workers) (void)worker->loop->Step(clock.Now());
    for (Lease& lease : bus.Receive(kTrajectoriesTopic, 1000).value()) {
      v1::Trajectory trajectory;
      ASSERT_TRUE(trajectory.ParseFromString(lease.body));
      (void)bus.Ack(lease);
      EXPECT_TRUE(finished.emplace(trajectory.id().group(), trajectory.id().member()).second);
      given_up += trajectory.end() == v1::EPISODE_END_GIVEN_UP ? 1 : 0;
      CheckEpisode(trajectory, background, delivered);
    }
    clock.Advance(milliseconds(5));
  }
  EXPECT_EQ(finished.size(), size_t{kGroupsKilled} * kOfAGroup);
  EXPECT_EQ(given_up, 0u);
  EXPECT_GT(killed, 20);
  EXPECT_GT(background, 2000u);
  EXPECT_GT(delivered, 500u);
}

}  // namespace
}  // namespace tidemill
