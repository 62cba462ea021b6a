#include "gateway/gateway_figures.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

RequestReport Answered(const std::string& tenant, double first_token_s) {
  return {.tenant = tenant,
          .prompt_tokens = 100,
          .cached_tokens = 60,
          .completion_tokens = 50,
          .choices = 1,
          .first_token_s = first_token_s};
}

TEST(DurationCounts, PercentilesAreWithinAFifth) {
  DurationCounts counts;
  EXPECT_LT(counts.PercentileMs(0.5), 0);
  for (int ms = 1; ms <= 1000; ++ms) counts.Add(ms / 1000.0);
  EXPECT_NEAR(counts.PercentileMs(0.5), 500, 100);
  EXPECT_NEAR(counts.PercentileMs(0.99), 990, 198);
  counts.Add(1e9);  // for ever
  EXPECT_GT(counts.PercentileMs(1), 100'000);
}

TEST(GatewayFigures, SumByTenantKindAndSlot) {
  GatewayFigures figures;
  constexpr int64_t kStart = 1'000'000;
  for (int i = 0; i < 20; ++i) {
    figures.Over(Answered("alice", 0.05), {.waiting = 3, .running = 7}, kStart);
  }
  figures.Over(Answered("bob", 0.5), {}, kStart + GatewayFigures::kSlotMs);
  RequestReport refused{.tenant = "bob", .status = 429, .error = "rate_limit_exceeded"};
  figures.Over(refused, {}, kStart + GatewayFigures::kSlotMs);
  const auto json = nlohmann::json::parse(
      figures.Json({.model = "m", .wall_ms = kStart + 3 * GatewayFigures::kSlotMs}));
  EXPECT_EQ(json["total"]["requests"], 22);
  EXPECT_EQ(json["total"]["errors"], 1);
  EXPECT_EQ(json["total"]["cached_tokens"], 21 * 60);
  ASSERT_EQ(json["series"]["time_ms"].size(), 3u);
  EXPECT_EQ(json["series"]["requests"], nlohmann::json({20, 2, 0}));
  EXPECT_EQ(json["series"]["waiting"][0], 3);
  EXPECT_EQ(json["series"]["running"][0], 7);
  EXPECT_EQ(json["series"]["tokens_per_s"][0], 100.0);
  EXPECT_NEAR(json["series"]["first_token_p50_ms"][0].get<double>(), 50, 10);
  EXPECT_TRUE(json["series"]["first_token_p50_ms"][2].is_null());
  ASSERT_EQ(json["tenants"].size(), 2u);
  EXPECT_EQ(json["tenants"][0]["tenant"], "alice");
  EXPECT_EQ(json["tenants"][1]["errors"], 1);
  ASSERT_EQ(json["errors"].size(), 1u);
  EXPECT_EQ(json["errors"][0]["kind"], "rate_limit_exceeded");
}

TEST(GatewayFigures, KeepHalfAnHourAndNoMoreThanTheirBounds) {
  GatewayFigures figures;
  for (int64_t i = 0; i < 5000; ++i) {
    figures.Over(Answered("tenant" + std::to_string(i), 0.1), {}, i * GatewayFigures::kSlotMs);
  }
  const auto json =
      nlohmann::json::parse(figures.Json({.wall_ms = 5000 * GatewayFigures::kSlotMs}));
  EXPECT_LE(json["series"]["time_ms"].size(), GatewayFigures::kSlots);
  EXPECT_LE(json["tenants"].size(), 100u);
  EXPECT_EQ(json["total"]["requests"], 5000);
  EXPECT_EQ(json["tenants"][0]["tenant"], "others");
}

}  // namespace
}  // namespace tidemill
