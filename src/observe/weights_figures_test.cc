#include "observe/weights_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using testing::HasSubstr;

TEST(WeightsFigures, GoThroughAHeartbeatUnchanged) {
  const WayFigures files{.way = "files",
                         .versions = 7,
                         .version = 12,
                         .bytes = 2.5e6,
                         .whole = 100e6,
                         .density = 0.0125,
                         .seconds = 0.25,
                         .bytes_total = 300e6};
  const WayFigures idle{.way = "bus"};
  v1::Heartbeat beat;
  for (const auto& [name, number] : NumbersOf({files, idle})) {
    (*beat.mutable_numbers())[name] = number;
  }
  (*beat.mutable_numbers())["weights_other_versions"] = 1;
  const std::vector<WayFigures> ways = WaysIn(beat);
  ASSERT_EQ(ways.size(), 1u) << "what published nothing, and what is no way, is not there";
  EXPECT_EQ(NumbersOf(ways), NumbersOf({files}));
  EXPECT_THAT(WaysText(ways), HasSubstr("1.25%"));
  EXPECT_THAT(WaysText(ways), HasSubstr("2.500"));
  EXPECT_EQ(WaysText(WaysIn(v1::Heartbeat())), "");
}

TEST(WeightsFigures, AreMetricsByWay) {
  Metrics metrics;
  metrics.AddSource([](MetricSink& sink) {
    SinkWays({{.way = "bus", .versions = 2, .bytes = 10, .bytes_total = 30}}, sink);
  });
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("tidemill_weights_bytes_total{way=\"bus\"} 30"));
  EXPECT_THAT(text, HasSubstr("tidemill_weights_density{way=\"bus\"} 1"));
}

}  // namespace
}  // namespace tidemill
