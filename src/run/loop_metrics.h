// What each loop and port counts, under the names Prometheus knows it by. docs/operations.md has
// the list; the counters themselves are the loops'.
#pragma once

#include <vector>

#include "bus/redis/redis_bus.h"
#include "core/loop_runner.h"
#include "core/metrics.h"
#include "learner/learner_loop.h"
#include "replay/replay_loop.h"
#include "reward/reward_loop.h"
#include "rollout/dispatcher.h"
#include "rollout/rollout_loop.h"
#include "scale/autoscaler.h"
#include "tools/box/box_pool.h"
#include "tools/tool_loop.h"

namespace tidemill {

void SinkRunner(const std::vector<LoopUsage>& loops, MetricSink& sink);
void SinkBus(const RedisBusStats& stats, MetricSink& sink);
void SinkTools(const ToolCounters& counters, MetricSink& sink);
void SinkBoxes(const BoxPool::Stats& stats, MetricSink& sink);
void SinkReward(const RewardCounters& counters, MetricSink& sink);
void SinkRollout(const RolloutCounters& counters, MetricSink& sink);
void SinkDispatcher(const DispatcherCounters& counters, MetricSink& sink);
void SinkReplay(const ReplayCounters& counters, MetricSink& sink);
void SinkLearner(const LearnerCounters& counters, MetricSink& sink);
void SinkScale(const ScaleCounters& counters, MetricSink& sink);

// The failures of ours, in one place for all roles: tidemill_retries_total{what}, ..
inline constexpr const char* kRetriesMetric = "tidemill_retries_total";
inline constexpr const char* kSkippedMetric = "tidemill_skipped_total";
inline constexpr const char* kStaleMetric = "tidemill_stale_total";

}  // namespace tidemill
