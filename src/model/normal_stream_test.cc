#include "model/normal_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "core/random.h"

namespace tidemill {
namespace {

std::vector<float> Draw(uint64_t seed, std::string_view label, size_t count) {
  std::vector<float> numbers(count);
  NormalStream(seed, label).Fill(0, 1.0f, numbers);
  return numbers;
}

// The answers that its authors publish with it.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(NormalStream, ItsNumbersAreThoseOfBoxAndMullerFromPhilox) {
  const std::vector<float> numbers = Draw(7, "a layer", 4000);
  const uint64_t mixed = MixHash(7, StableHash("a layer"));
  const PhiloxKey key = {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
  for (uint32_t i = 0; i < 1000; ++i) {
    const PhiloxCounter words = Philox({i, 0, 0, 0}, key);
    for (size_t pair = 0; pair < 2; ++pair) {
      const double u = ((words[2 * pair] >> 8) + 1) / 16777216.0;
      const double turn = (words[2 * pair + 1] >> 8) / 16777216.0;
      const double radius = std::sqrt(-2 * std::log(u));
      const double angle = 2 * std::numbers::pi * (turn - 0.125);
      EXPECT_NEAR(numbers[4 * i + 2 * pair], radius * std::cos(angle), 2e-6);
      EXPECT_NEAR(numbers[4 * i + 2 * pair + 1], radius * std::sin(angle), 2e-6);
    }
  }
}

TEST(NormalStream, PartsAreThoseOfTheWhole) {
  const std::vector<float> whole = Draw(3, "x", 5000);
  std::vector<float> parts(5000);
  const NormalStream stream(3, "x");
  for (size_t first = 0; first < parts.size(); first += 348) {
    const size_t count = std::min<size_t>(348, parts.size() - first);
    stream.Fill(first, 1.0f, std::span(parts).subspan(first, count));
  }
  EXPECT_EQ(parts, whole);
  EXPECT_NE(Draw(4, "x", 5000), whole);
  EXPECT_NE(Draw(3, "y", 5000), whole);
}

TEST(NormalStream, IsNormal) {
  const size_t count = 1 << 20;
  const std::vector<float> numbers = Draw(11, "moments", count);
  double mean = 0, square = 0, third = 0, fourth = 0, neighbours = 0;
  size_t beyond_two = 0, beyond_four = 0;
  for (size_t i = 0; i < count; ++i) {
    const double x = numbers[i];
    mean += x / count;
    square += x * x / count;
    third += x * x * x / count;
    fourth += x * x * x * x / count;
    neighbours += x * numbers[(i + 1) % count] / count;
    beyond_two += std::abs(x) > 2 ? 1 : 0;
    beyond_four += std::abs(x) > 4 ? 1 : 0;
  }
  // Each bound is more than four standard deviations of the figure.
  EXPECT_NEAR(mean, 0, 0.004);
  EXPECT_NEAR(square, 1, 0.006);
  EXPECT_NEAR(third, 0, 0.016);
  EXPECT_NEAR(fourth, 3, 0.04);
  EXPECT_NEAR(neighbours, 0, 0.004);
  EXPECT_NEAR(static_cast<double>(beyond_two), 0.0455003 * count, 850);
  EXPECT_NEAR(static_cast<double>(beyond_four), 6.3342e-5 * count, 33);
}

}  // namespace
}  // namespace tidemill
