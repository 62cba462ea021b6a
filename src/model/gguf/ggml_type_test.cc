#include "model/gguf/ggml_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/files.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

GgmlType TypeNamed(const std::string& name) {
  for (uint32_t type = 0; type < 64; ++type) {
    if (GgmlTypeName(type) == name) return ReadableGgmlType(type).value();
  }
  ADD_FAILURE() << name;
  return GgmlType::kF32;
}

TEST(GgmlType, BlocksBecomeTheNumbersTheReferenceMakesOfThem) {
  const std::string text =
      ReadFileBounded(SourceDir() + "/tests/golden/ggml_blocks.json", 1 << 20).value();
  const auto cases = nlohmann::json::parse(text).at("cases");
  EXPECT_EQ(cases.size(), 10u);
  for (const auto& c : cases) {
    const std::string name = c.at("type");
    const auto expected = c.at("numbers").get<std::vector<float>>();
    std::vector<float> got(expected.size());
    Dequantise(TypeNamed(name), FromHex(c.at("blocks")), got);
    EXPECT_EQ(got, expected) << name;
  }
}

TEST(GgmlType, HalvesAtTheEdgesOfTheirRange) {
  const std::string halves = FromHex(
      "0100ff03"
      "0004"
      "ff7b"
      "007c"
      "00fc"
      "017e"
      "0080");
  std::vector<float> got(8);
  Dequantise(GgmlType::kF16, halves, got);
  EXPECT_EQ(got[0], 0x1p-24f);         // the smallest
  EXPECT_EQ(got[1], 1023 * 0x1p-24f);  // the largest that is not normal
  EXPECT_EQ(got[2], 0x1p-14f);         // the smallest normal one
  EXPECT_EQ(got[3], 65504.0f);
  EXPECT_EQ(got[4], std::numeric_limits<float>::infinity());
  EXPECT_EQ(got[5], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(got[6]));
  EXPECT_TRUE(std::signbit(got[7]) && got[7] == 0);
}

TEST(GgmlType, Bfloat16RoundsToNearestTiesToEven) {
  EXPECT_EQ(ToBfloat16(1.0f), 0x3F80);
  EXPECT_EQ(ToBfloat16(1.0f + 0x1p-8f), 0x3F80);             // a tie goes to the even one
  EXPECT_EQ(ToBfloat16(1.0f + 0x1p-7f + 0x1p-8f), 0x3F82);   // and here that is the upper
  EXPECT_EQ(ToBfloat16(1.0f + 0x1p-8f + 0x1p-20f), 0x3F81);  // above a tie
  EXPECT_EQ(ToBfloat16(-std::numeric_limits<float>::infinity()), 0xFF80);
  EXPECT_EQ(ToBfloat16(std::numeric_limits<float>::quiet_NaN()) & 0x7FC0, 0x7FC0);
}

TEST(GgmlType, TypesThatCannotBeReadHaveNames) {
  EXPECT_EQ(GgmlTypeName(10), "Q2_K");
  EXPECT_FALSE(ReadableGgmlType(10).has_value());
  EXPECT_TRUE(GgmlTypeName(1000).empty());
}

}  // namespace
}  // namespace tidemill
