#include "model/split_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tidemill {
namespace {

uint32_t BitsOf(float value) {
  return std::bit_cast<uint32_t>(value);
}

// Every upper half with lower halves around all edges: signs, denormals, ties, carries into the
// exponent, the largest numbers, infinity.
TEST(SplitFloat, BothHalvesTogetherAreTheNumberToTheLastBit) {
  const std::vector<uint32_t> lows{0,      1,      2,      0x00ff, 0x4000, 0x7ffe, 0x7fff,
                                   0x8000, 0x8001, 0x8002, 0xc000, 0xfffe, 0xffff};
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : lows) {
      const auto value = std::bit_cast<float>(high << 16 | low);
      const SplitFloat split = SplitOf(value);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(WidenBfloat16(split.high))) << high << " " << low;
        ASSERT_TRUE(std::isnan(JoinFloat(split.high, split.rest))) << high << " " << low;
        continue;
      }
      ASSERT_EQ(BitsOf(JoinFloat(split.high, split.rest)), BitsOf(value)) << high << " " << low;
    }
  }
}

TEST(SplitFloat, TheFirstHalfIsTheNearestBfloat16) {
  for (uint32_t exponent = 0; exponent < 0xfe; exponent += 3) {
    for (uint32_t mantissa = 0; mantissa < 0x800000; mantissa += 0x1357) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        const auto value = std::bit_cast<float>(sign | exponent << 23 | mantissa);
        const SplitFloat split = SplitOf(value);
        const double off = std::abs(double{value} - WidenBfloat16(split.high));
        const auto above = static_cast<uint16_t>(split.high + 1);
        ASSERT_LE(off, std::abs(double{value} - WidenBfloat16(above))) << value;
        if ((split.high & 0x7fff) == 0) continue;  // beyond zero the other sign begins
        const auto below = static_cast<uint16_t>(split.high - 1);
        ASSERT_LE(off, std::abs(double{value} - WidenBfloat16(below))) << value;
      }
    }
  }
}

TEST(SplitFloat, ATieGoesAwayFromZeroAndMayCarryIntoTheExponent) {
  const SplitFloat tie = SplitOf(std::bit_cast<float>(0x3f808000u));
  EXPECT_EQ(tie.high, 0x3f81);
  EXPECT_EQ(tie.rest, std::numeric_limits<int16_t>::min());
  const SplitFloat negative = SplitOf(std::bit_cast<float>(0xbf808000u));
  EXPECT_EQ(negative.high, 0xbf81);
  const SplitFloat carry = SplitOf(std::bit_cast<float>(0x3fffffffu));  // just below 2
  EXPECT_EQ(carry.high, 0x4000);
  EXPECT_EQ(carry.rest, -1);
  const SplitFloat zero = SplitOf(-0.0f);
  EXPECT_EQ(zero.high, 0x8000);
  EXPECT_EQ(zero.rest, 0);
  const SplitFloat tiny = SplitOf(std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(tiny.high, 0);
  EXPECT_EQ(tiny.rest, 1);
}

// What split weights are for: a step of 1e-6 of a weight is less than a bfloat16 can follow.
TEST(SplitFloat, SmallStepsAddUpInBothHalvesAndAreLostInTheFirstAlone) {
  SplitFloat both = SplitOf(0.02f);
  uint16_t alone = both.high;
  for (int step = 0; step < 1000; ++step) {
    both = SplitOf(JoinFloat(both.high, both.rest) + 1e-6f);
    alone = SplitOf(WidenBfloat16(alone) + 1e-6f).high;
  }
  EXPECT_NEAR(JoinFloat(both.high, both.rest), 0.021, 1e-5);
  EXPECT_EQ(alone, SplitOf(0.02f).high);
}

}  // namespace
}  // namespace tidemill
