#include "serve/loop_metrics.h"

namespace tidemill {
namespace {

void Retries(MetricSink& sink, uint64_t count, const char* what) {
  sink.Counter(kRetriesMetric, "Work tried again after a failure of ours",
               static_cast<double>(count), {{"what", what}});
}
void Skipped(MetricSink& sink, uint64_t count, const char* what) {
  sink.Counter(kSkippedMetric, "Work given up after its retries", static_cast<double>(count),
               {{"what", what}});
}
void Stale(MetricSink& sink, uint64_t count, const char* why) {
  sink.Counter(kStaleMetric, "Episodes kept but never trained on", static_cast<double>(count),
               {{"why", why}});
}
void Total(MetricSink& sink, const char* name, const char* help, uint64_t count,
           const Labels& labels = {}) {
  sink.Counter(name, help, static_cast<double>(count), labels);
}
void Now(MetricSink& sink, const char* name, const char* help, uint64_t value) {
  sink.Gauge(name, help, static_cast<double>(value));
}

}  // namespace

void SinkRunner(const std::vector<LoopUsage>& loops, MetricSink& sink) {
  for (const LoopUsage& loop : loops) {
    const Labels labels = {{"loop", loop.name}};
    sink.Counter("tidemill_loop_busy_seconds_total", "Time a loop spent in its steps",
                 Seconds(loop.busy), labels);
    Total(sink, "tidemill_loop_steps_total", "Steps of a loop", loop.steps, labels);
    sink.Gauge("tidemill_loop_longest_step_seconds", "The longest step so far",
               Seconds(loop.longest_step), labels);
  }
}

void SinkBus(const RedisBusStats& stats, MetricSink& sink) {
  Total(sink, "tidemill_bus_reconnects_total", "Connections to Redis made again", stats.reconnects);
  Total(sink, "tidemill_bus_refused_total", "Publishes a full topic refused, tried again",
        stats.refused);
  Total(sink, "tidemill_bus_forced_total", "Publishes sent above a topic's capacity in the end",
        stats.forced);
  Total(sink, "tidemill_bus_leases_lost_total", "Leases that had run out when they were to end",
        stats.lost);
  Total(sink, "tidemill_bus_dropped_total", "Messages to topics that were removed meanwhile",
        stats.dropped);
  Total(sink, "tidemill_bus_given_back_total", "Messages fetched and not received",
        stats.given_back);
}

void SinkTools(const ToolCounters& c, MetricSink& sink) {
  Total(sink, "tidemill_tool_calls_total", "Requests taken", c.requests, {{"kind", "agent"}});
  Total(sink, "tidemill_tool_calls_total", "Requests taken", c.gradings, {{"kind", "grade"}});
  Now(sink, "tidemill_tool_calls_running", "Requests under way", c.running);
  Total(sink, "tidemill_tool_cache_hits_total", "Requests answered from the cache", c.cache_hits);
  Total(sink, "tidemill_tool_cache_misses_total", "Requests the cache did not know",
        c.cache_misses);
  Total(sink, "tidemill_tool_joined_total", "Requests answered with an identical one's run",
        c.joined);
  Total(sink, "tidemill_tool_repeated_total", "Second deliveries of a request", c.repeated);
  Total(sink, "tidemill_tool_cancelled_total", "Requests of episodes that were given up",
        c.cancelled);
  Total(sink, "tidemill_tool_unavailable_total", "Requests that failed through us", c.unavailable);
}

void SinkBoxes(const BoxPool::Stats& stats, MetricSink& sink) {
  Total(sink, "tidemill_boxes_total", "Boxes used: taken ready from the pool, or opened on demand",
        stats.warm, {{"how", "ready"}});
  Total(sink, "tidemill_boxes_total", "Boxes used: taken ready from the pool, or opened on demand",
        stats.cold, {{"how", "on_demand"}});
}

void SinkReward(const RewardCounters& c, MetricSink& sink) {
  Total(sink, "tidemill_scored_total", "Verdicts given", c.scored);
  Total(sink, "tidemill_repeated_literals_total", "Answers that hold the shown test's value",
        c.repeated_literals);
  Now(sink, "tidemill_scoring_running", "Episodes being scored", c.in_progress);
  Retries(sink, c.retries, "score");
  Skipped(sink, c.unscorable, "score");
}

void SinkRollout(const RolloutCounters& c, MetricSink& sink) {
  Now(sink, "tidemill_episodes_running", "Episodes under way", c.episodes_running);
  Now(sink, "tidemill_episodes_waiting_for_tools", "Tool calls not yet answered",
      c.waiting_for_tools);
  Total(sink, "tidemill_episodes_finished_total", "Episodes finished", c.finished);
  Total(sink, "tidemill_episodes_given_up_total", "Of those, given up through us", c.given_up);
  Total(sink, "tidemill_generated_tokens_total", "Tokens sampled", c.generated_tokens);
  Total(sink, "tidemill_tool_calls_asked_total", "Tool calls asked for", c.tool_calls);
  Total(sink, "tidemill_tool_calls_lost_total", "Tool calls no answer came to", c.calls_lost);
  Total(sink, "tidemill_groups_lost_total", "Groups whose lease ran out under a worker",
        c.groups_lost);
  Retries(sink, c.tool_retries, "tool");
  Skipped(sink, c.skipped, "tool");
}

void SinkDispatcher(const DispatcherCounters& c, MetricSink& sink) {
  Total(sink, "tidemill_groups_issued_total", "Groups issued", c.groups_issued);
  Total(sink, "tidemill_groups_dropped_total", "Groups that gave their credit back",
        c.groups_dropped);
  Total(sink, "tidemill_tasks_put_off_total",
        "Tasks whose groups were dropped through us too often in a row; they wait for their turn",
        c.put_off);
  Now(sink, "tidemill_gate_running", "Episodes issued and not reported", c.running);
  Now(sink, "tidemill_gate_accepted", "Episodes accepted since the beginning", c.accepted);
}

void SinkReplay(const ReplayCounters& c, MetricSink& sink) {
  Total(sink, "tidemill_trajectories_received_total", "Trajectories received", c.received);
  Total(sink, "tidemill_trajectories_stored_total", "Trajectories stored", c.stored);
  Total(sink, "tidemill_trajectories_duplicate_total", "Trajectories known already", c.duplicates);
  Total(sink, "tidemill_episodes_scored_total", "Episodes with a verdict", c.scored);
  Total(sink, "tidemill_episodes_solved_total", "Of those, solved", c.solved);
  Total(sink, "tidemill_episodes_used_total", "Episodes used in a step", c.used);
  Total(sink, "tidemill_episodes_zero_variance_total",
        "Episodes of groups without a difference in rewards", c.zero_variance);
  Total(sink, "tidemill_masked_tokens_total", "Tokens over the staleness bound, masked",
        c.masked_tokens);
  Now(sink, "tidemill_replay_ready_episodes", "Episodes ready for a batch", c.ready_episodes);
  Now(sink, "tidemill_replay_waiting_verdicts", "Episodes without a verdict yet",
      c.waiting_verdicts);
  Stale(sink, c.stale, "failed");
  Stale(sink, c.too_old, "too_old");
}

void SinkLearner(const LearnerCounters& c, MetricSink& sink) {
  Total(sink, "tidemill_steps_total", "Steps of the learner, those before a resume included",
        c.steps);
  Now(sink, "tidemill_policy_version", "The newest version of the weights", c.version);
  Total(sink, "tidemill_trained_tokens_total", "Tokens in losses", c.tokens);
  Total(sink, "tidemill_checkpoints_total", "Checkpoints written", c.checkpoints);
  Now(sink, "tidemill_learner_waiting", "1 while the learner waits for a batch",
      c.waiting_for_batch ? 1 : 0);
}

void SinkScale(const ScaleCounters& c, MetricSink& sink) {
  Now(sink, "tidemill_scale_wanted_workers", "Tool workers there should be", c.wanted);
  const auto workers = [&](const char* whose, uint64_t count) {
    sink.Gauge("tidemill_scale_workers", "Tool workers as the autoscaler sees them",
               static_cast<double>(count), {{"whose", whose}});
  };
  workers("own", c.own);
  workers("own_leaving", c.draining);
  workers("foreign", c.foreign);
  sink.Gauge("tidemill_scale_service_seconds", "Mean time of a tool call, as observed",
             static_cast<double>(c.service_us) / 1e6);
  Total(sink, "tidemill_scale_started_total", "Tool workers started", c.started);
  Total(sink, "tidemill_scale_drained_total", "Tool workers that left when asked", c.drained);
  Total(sink, "tidemill_scale_failed_total", "Tool workers that ended unasked", c.failed);
}

}  // namespace tidemill
