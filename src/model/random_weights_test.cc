#include "model/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "model/expected_tensors.h"
#include "model/number_types.h"
#include "testing/test_kit.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

std::vector<float> Numbers(const TensorView& tensor) {
  std::vector<float> numbers(static_cast<size_t>(tensor.elements()));
  ToFloat32(tensor.dtype, tensor.data, numbers.size(), numbers.data());
  return numbers;
}

// A matrix of it is larger than the parts that threads take.
ModelConfig WideConfig(Dtype dtype) {
  ModelConfig config = TinyConfig();
  config.vocab_size = 40'000;
  config.dtype = dtype;
  return config;
}

TEST(WriteRandomModel, WritesTheConfigsTypeAndTheSameWhateverTheNumberOfThreads) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    const TemporaryDirectory one, many;
    const ModelConfig config = WideConfig(dtype);
    ASSERT_TRUE(WriteRandomModel(config, 9, 1, one.path()).ok());
    ASSERT_TRUE(WriteRandomModel(config, 9, 5, many.path()).ok());
    const TensorFiles a = TensorFiles::OpenModel(one.path()).value();
    const TensorFiles b = TensorFiles::OpenModel(many.path()).value();
    ASSERT_EQ(a.tensors().size(), ExpectedTensors(config).size());
    for (const TensorView& tensor : a.tensors()) {
      const TensorView* other = b.Find(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      EXPECT_EQ(tensor.dtype, dtype);
      EXPECT_EQ(tensor.shape, ExpectedTensors(config).at(tensor.name));
      EXPECT_EQ(std::memcmp(tensor.data, other->data, tensor.bytes), 0) << tensor.name;
    }
    EXPECT_EQ(ReadModelConfig(one.path())->dtype, dtype);
  }
}

TEST(WriteRandomModel, HoldsWhatTransformersWouldBeginWith) {
  const TemporaryDirectory wide, narrow;
  ModelConfig config = WideConfig(Dtype::kF32);
  ASSERT_TRUE(WriteRandomModel(config, 2, 2, wide.path()).ok());
  config.dtype = Dtype::kBF16;
  ASSERT_TRUE(WriteRandomModel(config, 2, 2, narrow.path()).ok());
  const TensorFiles exact = TensorFiles::OpenModel(wide.path()).value();
  const TensorFiles rounded = TensorFiles::OpenModel(narrow.path()).value();
  for (const TensorView& tensor : exact.tensors()) {
    const std::vector<float> numbers = Numbers(tensor);
    const std::vector<float> half = Numbers(**rounded.Get(tensor.name));
    double square = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_NEAR(half[i], numbers[i], std::abs(numbers[i]) / 256 + 1e-30);
      square += static_cast<double>(numbers[i]) * numbers[i];
      if (HasFailure()) return;
    }
    const double deviation = std::sqrt(square / static_cast<double>(numbers.size()));
    if (tensor.name.ends_with("norm.weight")) {
      EXPECT_EQ(deviation, 1);
    } else if (tensor.name.ends_with(".bias")) {
      EXPECT_EQ(deviation, 0);
    } else {
      EXPECT_NEAR(deviation, config.initializer_range, 0.1 * config.initializer_range);
    }
  }
}

TEST(NumberTypes, EveryHalfSurvivesAndNumbersBetweenGoToTheNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
      float wide = 0;
      ToFloat32(dtype, reinterpret_cast<const std::byte*>(&half), 1, &wide);
      uint16_t back = 0;
      FromFloat32(&wide, 1, dtype, reinterpret_cast<std::byte*>(&back));
      if (std::isnan(wide)) continue;
      ASSERT_EQ(back, half) << DtypeName(dtype);
    }
  }
  const auto through = [](Dtype dtype, float value) {
    uint16_t code = 0;
    FromFloat32(&value, 1, dtype, reinterpret_cast<std::byte*>(&code));
    float back = 0;
    ToFloat32(dtype, reinterpret_cast<const std::byte*>(&code), 1, &back);
    return back;
  };
  EXPECT_EQ(through(Dtype::kF16, 1.0f + 0x1p-11f), 1.0f) << "a tie goes to the even one";
  EXPECT_EQ(through(Dtype::kF16, 1.0f + 3 * 0x1p-11f), 1.0f + 0x1p-9f);
  EXPECT_EQ(through(Dtype::kF16, 65520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(through(Dtype::kF16, 0x1p-25f), 0.0f);
  EXPECT_EQ(through(Dtype::kF16, 0x1.8p-25f), 0x1p-24f);
  EXPECT_EQ(through(Dtype::kF16, -0x1.2p-16f), -0x1.2p-16f);
  EXPECT_EQ(through(Dtype::kBF16, 1.0f + 0x1p-8f), 1.0f);
  EXPECT_EQ(through(Dtype::kBF16, 1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);
  EXPECT_TRUE(std::isnan(through(Dtype::kBF16, std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(through(Dtype::kF16, std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace tidemill
