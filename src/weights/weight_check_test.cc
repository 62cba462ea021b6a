#include "weights/weight_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace tidemill {
namespace {

template <typename T>
Status Check(Dtype dtype, const std::vector<T>& numbers) {
  TensorView view;
  view.name = "layer.weight";
  view.dtype = dtype;
  view.data = reinterpret_cast<const std::byte*>(numbers.data());
  view.bytes = numbers.size() * sizeof(T);
  return CheckFinite(view);
}

TEST(CheckFinite, FindsOneNumberAnywhereInATensorOfAnySize) {
  for (size_t size : {1u, 7u, 1023u, 1024u, 1025u, 5000u}) {
    std::vector<float> numbers(size, 1.5f);
    numbers[size / 2] = std::numeric_limits<float>::max();
    EXPECT_TRUE(Check(Dtype::kF32, numbers).ok());
    for (float wrong : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      for (size_t at : {size_t{0}, size / 2, size - 1}) {
        const float was = std::exchange(numbers[at], wrong);
        const Status status = Check(Dtype::kF32, numbers);
        EXPECT_EQ(status.code(), Code::kCorrupt) << size << " " << at;
        EXPECT_THAT(status.message(), testing::HasSubstr("layer.weight"));
        numbers[at] = was;
      }
    }
  }
}

TEST(CheckFinite, KnowsTheNarrowTypesAndTheWideOne) {
  EXPECT_TRUE(Check<uint16_t>(Dtype::kBF16, {0x3f80, 0x7f7f}).ok());
  EXPECT_FALSE(Check<uint16_t>(Dtype::kBF16, {0x3f80, 0x7fc0}).ok());
  EXPECT_TRUE(Check<uint16_t>(Dtype::kF16, {0x3c00, 0x7bff}).ok());
  EXPECT_FALSE(Check<uint16_t>(Dtype::kF16, {0xfc00}).ok());
  EXPECT_FALSE(Check<double>(Dtype::kF64, {0, std::nan("")}).ok());
  EXPECT_TRUE(Check<int32_t>(Dtype::kI32, {-1}).ok()) << "a whole number is finite";
  EXPECT_TRUE(Check<float>(Dtype::kF32, {}).ok());
}

TEST(CheckWeightBytes, RefusesWhatNoMemoryHolds) {
  EXPECT_TRUE(CheckWeightBytes(1 << 20).ok());
  EXPECT_FALSE(CheckWeightBytes(size_t{1} << 60).ok());
}

}  // namespace
}  // namespace tidemill
