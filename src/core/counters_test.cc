#include "core/counters.h"

#include <gmock/gmock.h>

namespace tidemill {
namespace {

using testing::HasSubstr;
using testing::Not;

// A new counter is one line of its loop's set.
struct SampleCounters : CounterSet {
  Counter turns{*this, {.key = "turns", .metric = "tidemill_turns_total", .help = "Turns taken"}};
  Counter waiting{*this,
                  {.key = "waiting",
                   .metric = "tidemill_waiting_seconds",
                   .help = "Time waited",
                   .kind = Counter::Kind::kLevel,
                   .labels = {{"what", "turn"}},
                   .scale = 1e-6}};
  Counter hidden{*this, {.key = "hidden", .metric = "", .help = "Not for Prometheus"}};
};

TEST(Counters, OneDeclarationReachesPrometheusWithHelpLabelsAndUnit) {
  SampleCounters counters;
  ++counters.turns;
  counters.turns += 4;
  counters.waiting = 2'500'000;
  ++counters.hidden;
  Metrics metrics;
  metrics.AddSource([&](MetricSink& sink) { SinkCounters(counters, sink); });
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("# HELP tidemill_turns_total Turns taken"));
  EXPECT_THAT(text, HasSubstr("# TYPE tidemill_turns_total counter"));
  EXPECT_THAT(text, HasSubstr("tidemill_turns_total 5"));
  EXPECT_THAT(text, HasSubstr("# TYPE tidemill_waiting_seconds gauge"));
  EXPECT_THAT(text, HasSubstr("tidemill_waiting_seconds{what=\"turn\"} 2.5"));
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
}

TEST(Counters, ASetListsItsCountersInOrder) {
  const SampleCounters counters;
  std::vector<std::string> keys;
  for (const Counter* counter : counters.all()) keys.push_back(counter->about().key);
  EXPECT_EQ(keys, (std::vector<std::string>{"turns", "waiting", "hidden"}));
}

}  // namespace
}  // namespace tidemill
