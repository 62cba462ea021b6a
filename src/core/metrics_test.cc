#include "core/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using testing::HasSubstr;

TEST(Metrics, TextHasWhatWasCountedWhatSourcesSayAndTheCommonLabels) {
  Metrics metrics;
  metrics.Counter("tidemill_a_total", "As", {{"kind", "x"}}).Increment(2);
  metrics.Histogram("tidemill_b_seconds", "Bs").Observe(0.2);
  int asked = 0;
  metrics.AddSource([&](MetricSink& sink) {
    sink.Gauge("tidemill_c", "Cs", ++asked, {{"kind", "y"}});
    sink.Counter("tidemill_d_total", "Ds", 7);
  });
  const std::string text = metrics.Text({{"run", "demo"}});
  EXPECT_THAT(text, HasSubstr("# TYPE tidemill_a_total counter\n"));
  EXPECT_THAT(text, HasSubstr("tidemill_a_total{kind=\"x\",run=\"demo\"} 2"));
  EXPECT_THAT(text, HasSubstr("tidemill_b_seconds_bucket{run=\"demo\",le=\"0.25\"} 1"));
  EXPECT_THAT(text, HasSubstr("# HELP tidemill_c Cs\n# TYPE tidemill_c gauge\n"));
  EXPECT_THAT(text, HasSubstr("tidemill_c{kind=\"y\",run=\"demo\"} 1"));
  EXPECT_THAT(text, HasSubstr("tidemill_d_total{run=\"demo\"} 7"));
  EXPECT_THAT(metrics.Text(), HasSubstr("tidemill_c{kind=\"y\"} 2"));
}

TEST(Metrics, SamplesOfOneNameStandTogether) {
  Metrics metrics;
  metrics.Counter("tidemill_a_total", "As", {{"kind", "counted"}}).Increment();
  metrics.AddSource([](MetricSink& sink) {
    sink.Counter("tidemill_a_total", "As", 1, {{"kind", "told"}});
    sink.Counter("tidemill_b_total", "Bs", 1);
    sink.Counter("tidemill_a_total", "As", 1, {{"kind", "told again"}});
  });
  const auto families = metrics.Collect();
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(families[0].metric.size(), 3u);
  EXPECT_EQ(families[1].metric.size(), 1u);
}

}  // namespace
}  // namespace tidemill
