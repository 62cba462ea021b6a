#include "run/run_snapshot.h"

#include <gtest/gtest.h>

#include <set>

#include "run/assembly.h"

namespace tidemill {
namespace {

struct NewCounters : CounterSet {
  Counter novel{*this, {.key = "novel", .metric = "tidemill_novel_total", .help = "Something new"}};
};

TEST(RunSnapshot, ACounterThatIsDeclaredOnceIsInTheSnapshotAndInMetricsJsonl) {
  NewCounters counters;
  counters.novel = 7;
  RunSnapshot snapshot;
  snapshot.seconds = 2;
  snapshot.Add(counters);
  EXPECT_EQ(snapshot["novel"], 7u);
  EXPECT_EQ(snapshot["unknown"], 0u);
  EXPECT_EQ(snapshot.ToNumbers().at("novel"), 7);
  EXPECT_EQ(snapshot.ToNumbers().at("seconds"), 2);
}

TEST(RunSnapshot, TimesAreMeansOverTheCommandsRun) {
  ToolCounters counters;
  counters.completed = 4;
  counters.wall_us = 10'000;
  RunSnapshot snapshot;
  EXPECT_EQ(snapshot.tool_ms(), 0);
  snapshot.Add(counters);
  EXPECT_EQ(snapshot.tool_ms(), 2.5);
}

TEST(RunSnapshot, NoTwoLoopsCountUnderOneName) {
  const DispatcherCounters dispatcher;
  const RolloutCounters rollout;
  const ToolCounters tools;
  const RewardCounters reward;
  const ReplayCounters replay;
  const LearnerCounters learner;
  std::set<std::string> keys;
  for (const CounterSet* set : std::initializer_list<const CounterSet*>{
           &dispatcher, &rollout, &tools, &reward, &replay, &learner}) {
    for (const Counter* counter : set->all()) {
      EXPECT_TRUE(keys.insert(counter->about().key).second) << counter->about().key;
      EXPECT_FALSE(counter->about().help.empty()) << counter->about().key;
    }
  }
  // What the display and the summary show by name.
  for (const char* key : {"steps",
                          "version",
                          "epoch",
                          "episodes_running",
                          "episodes_finished",
                          "episodes_stored",
                          "waiting_for_tools",
                          "waiting_verdicts",
                          "ready_episodes",
                          "generated_tokens",
                          "trained_tokens",
                          "stale",
                          "too_old",
                          "zero_variance",
                          "duplicates",
                          "unscorable",
                          "tool_calls",
                          "gradings",
                          "cache_hits",
                          "cache_misses",
                          "cache_joined",
                          "tool_retries",
                          "reward_retries",
                          "tool_commands",
                          "skipped",
                          "put_off",
                          "evicted",
                          "rescored",
                          "second_looks",
                          "tool_wall_us",
                          "tool_queue_us",
                          "gate_running",
                          "episodes_received"}) {
    EXPECT_EQ(keys.count(key), 1u) << key;
  }
}

}  // namespace
}  // namespace tidemill
