#include "core/counters.h"

namespace tidemill {

void SinkCounters(const CounterSet& set, MetricSink& sink) {
  for (const Counter* counter : set.all()) {
    const Counter::About& about = counter->about();
    if (about.metric.empty()) continue;
    const auto value = static_cast<double>(counter->load()) * about.scale;
    if (about.kind == Counter::Kind::kLevel) {
      sink.Gauge(about.metric, about.help, value, about.labels);
    } else {
      sink.Counter(about.metric, about.help, value, about.labels);
    }
  }
}

void SinkUsage(const std::vector<LoopUsage>& loops, MetricSink& sink) {
  for (const LoopUsage& loop : loops) {
    const Labels labels = {{"loop", loop.name}};
    sink.Counter("tidemill_loop_busy_seconds_total", "Time a loop spent in its steps",
                 Seconds(loop.busy), labels);
    sink.Counter("tidemill_loop_steps_total", "Loop steps", static_cast<double>(loop.steps),
                 labels);
    sink.Gauge("tidemill_loop_longest_step_seconds", "Longest loop step so far",
               Seconds(loop.longest_step), labels);
  }
}

}  // namespace tidemill
