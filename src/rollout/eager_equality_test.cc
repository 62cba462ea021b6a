// Calls that begin early give what calls that begin late give: the same episodes, bit for bit, in
// less time.
#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/random.h"
#include "core/topics.h"
#include "rollout/rollout_loop.h"
#include "testing/bus_test_kit.h"
#include "testing/scripted_talk.h"
#include "testing/seeded_episodes.h"
#include "testing/test_kit.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

constexpr uint32_t kMembers = 8, kGroups = 250;  // 2,000 episodes
constexpr auto kTokenTime = milliseconds(4);
constexpr TokenId kStop = 0, kAskCompile = 20, kAskLint = 21, kAskWrite = 22, kNoSense = 9;
const std::map<TokenId, double> kShares = {
    {kStop, 0.03}, {kAskCompile, 0.05}, {kAskLint, 0.03}, {kAskWrite, 0.01}, {kNoSense, 0.005}};

struct Finished {
  std::map<std::pair<uint64_t, uint32_t>, std::string> episodes;  // bytes without times
  std::vector<int64_t> lengths_ms;
  uint64_t early = 0, cancelled = 0;
};

Finished RunEpisodes(bool eager) {
  QuietWaker waker;
  VirtualClock clock;
  MemoryBus bus(clock);
  EXPECT_TRUE(OpenStandardTopics(bus, {.capacity = 10'000}).ok());
  SeededEngine engine({.shares = kShares, .stop = kStop});
  SlowPort port(clock, milliseconds(200));
  const ScriptedProtocol protocol({.calls = {{kAskCompile, {"compile", "{}"}},
                                             {kAskLint, {"lint", "{}"}},
                                             {kAskWrite, {"write_file", "{}"}}},
                                   .stop = kStop,
                                   .nonsense = kNoSense});
  RolloutOptions options;
  options.max_episodes = 4000;
  options.limits.eager = eager;
  RolloutLoop rollout(bus, engine, protocol, clock, options);
  ToolLoopOptions tool_options;
  tool_options.cache = 0;
  ToolLoop tools(bus, port, tool_options);
  rollout.Attach(waker), tools.Attach(waker);
  bus.Subscribe(kTrajectoriesTopic, waker);
  for (uint64_t group = 1; group <= kGroups; ++group) {
    v1::GroupLease lease;
    lease.set_group(group), lease.set_members(kMembers), lease.set_max_turns(4);
    lease.set_seed(MixHash(99, group));
    lease.mutable_task()->set_id("t" + std::to_string(group % 9));
    lease.set_purpose(v1::PURPOSE_TRAIN);
    lease.mutable_sampling()->set_temperature(1);
    lease.mutable_sampling()->set_max_turn_tokens(80);
    EXPECT_TRUE(bus.Publish(kGroupsTopic, lease.SerializeAsString()).ok());
  }
  Finished finished;
  for (int tick = 0; tick < 20'000 && finished.episodes.size() < kGroups * kMembers; ++tick) {
    engine.Tick(), port.Tick();
    // What one of them sends the other takes in the same tick.
    for (int i = 0; i < 2; ++i) {
      (void)rollout.Step(clock.Now());
      (void)tools.Step(clock.Now());
    }
    for (Lease& lease : bus.Receive(kTrajectoriesTopic, 1000).value()) {
      v1::Trajectory trajectory;
      EXPECT_TRUE(trajectory.ParseFromString(lease.body));
      (void)bus.Ack(lease);
      finished.lengths_ms.push_back(trajectory.finished_ms() - trajectory.started_ms());
      const std::pair id(trajectory.id().group(), trajectory.id().member());
      finished.episodes[id] = WithoutTimes(std::move(trajectory));
    }
    clock.Advance(kTokenTime);
  }
  finished.early = rollout.counters().early_calls;
  finished.cancelled = rollout.counters().cancelled_calls;
  return finished;
}

TEST(EagerCalls, TwoThousandEpisodesAreTheSameBitForBitAndShorter) {
  const Finished late = RunEpisodes(false), early = RunEpisodes(true);
  ASSERT_EQ(late.episodes.size(), size_t{kGroups} * kMembers);
  ASSERT_EQ(early.episodes.size(), late.episodes.size());
  for (const auto& [id, bytes] : late.episodes) {
    ASSERT_EQ(early.episodes.at(id), bytes) << "group " << id.first << " member " << id.second;
  }
  EXPECT_EQ(late.early, 0u);
  EXPECT_GT(early.early, 1000u);
  EXPECT_GT(early.cancelled, 50u) << "turns that ended malformed or too long took calls back";
  const auto total = [](const Finished& of) {
    int64_t sum = 0;
    for (const int64_t ms : of.lengths_ms) sum += ms;
    return sum;
  };
  EXPECT_LT(total(early), total(late));
}

}  // namespace
}  // namespace tidemill
