#include "learner/torch/block_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "core/random.h"
#include "learner/torch/adamw.h"
#include "model/torch/aten.h"

namespace tidemill {
namespace {

constexpr int64_t kNumbers = 8192;

// Gradients of very different sizes beside each other, partly the same in every step and partly
// noise, as a layer's are.
class Gradients {
 public:
  explicit Gradients(uint64_t seed) : random_(seed) {
    for (int64_t i = 0; i < kNumbers; ++i) {
      sizes_.push_back(random_.LogNormal(1e-3, 1.0));
      drifts_.push_back(0.5 * random_.Normal());
    }
  }
  at::Tensor Next() {
    at::Tensor gradient = at::empty({kNumbers / 64, 64}, at::kFloat);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      gradient.data_ptr<float>()[i] =
          static_cast<float>(sizes_[i] * (drifts_[i] + random_.Normal()));
    }
    return gradient;
  }

 private:
  Random random_;
  std::vector<double> sizes_, drifts_;
};

at::Tensor Start() {
  at::Tensor weights = at::empty({kNumbers / 64, 64}, at::kFloat);
  Random random(5);
  for (int64_t i = 0; i < kNumbers; ++i) {
    weights.data_ptr<float>()[i] = static_cast<float>(0.02 * random.Normal());
  }
  return weights;
}

// One set of weights and its optimizer.
struct Trained {
  explicit Trained(const AdamWOptions& options) : optimizer(options) {
    weights.emplace("w", Start().set_requires_grad(true));
  }
  void Step(const at::Tensor& gradient, double rate) {
    weights.at("w").mutable_grad() = gradient;
    optimizer.Step(weights, rate);
  }
  at::Tensor Moved() const { return (weights.at("w").detach() - Start()).to(at::kDouble); }

  NamedTensors weights;
  AdamW optimizer;
};

double Norm(const at::Tensor& tensor) {
  return tensor.norm().item<double>();
}

TEST(BlockMoments, OverAThousandStepsWeightsMoveAsWithFloat32) {
  // A slower second moment moves by less than one code in a step, and errors last longer.
  for (const auto& [beta2, bound] : {std::pair{0.95, 0.05}, std::pair{0.999, 0.08}}) {
    Trained exact({.beta2 = beta2}), bytes({.beta2 = beta2, .moments_in_blocks = true});
    Gradients gradients(3);
    for (int step = 0; step < 1000; ++step) {
      const at::Tensor gradient = gradients.Next();
      exact.Step(gradient, 1e-6);
      bytes.Step(gradient, 1e-6);
    }
    const at::Tensor expected = exact.Moved(), moved = bytes.Moved();
    EXPECT_GT(Norm(expected), 1e-3 * std::sqrt(kNumbers) * 0.1) << "they moved";
    EXPECT_LT(Norm(moved - expected) / Norm(expected), bound) << "beta2 " << beta2;
    EXPECT_NEAR(Norm(moved) / Norm(expected), 1, 0.02) << "beta2 " << beta2;
  }
}

TEST(BlockMoments, TakeTwoBytesAndAScaleForEachBlock) {
  Trained bytes({.moments_in_blocks = true});
  Gradients gradients(3);
  bytes.Step(gradients.Next(), 1e-3);
  size_t total = 0;
  for (const auto& [name, tensor] : bytes.optimizer.SharedState()) total += tensor.nbytes();
  EXPECT_EQ(total, 2 * kNumbers + 2 * 4 * kNumbers / kMomentBlock);
}

TEST(BlockMoments, GoOnFromASavedStateBitForBit) {
  Trained whole({.moments_in_blocks = true}), resumed({.moments_in_blocks = true});
  Gradients gradients(4), again(4);
  for (int step = 0; step < 5; ++step) whole.Step(gradients.Next(), 1e-3);
  const NamedTensors state = whole.optimizer.State();
  {
    const at::NoGradGuard no_grad;
    resumed.weights.at("w").copy_(whole.weights.at("w"));
  }
  ASSERT_TRUE(resumed.optimizer.Restore(resumed.weights, state, 5).ok());
  for (int step = 0; step < 5; ++step) {
    const at::Tensor gradient = gradients.Next();
    whole.Step(gradient, 1e-3);
    resumed.Step(gradient, 1e-3);
  }
  EXPECT_TRUE(at::equal(whole.weights.at("w"), resumed.weights.at("w")));
  AdamW exact({});
  const Status refused = exact.Restore(whole.weights, state, 5);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.message().find("learner.moments is float32"), std::string::npos);
  Trained other({});
  other.Step(again.Next(), 1e-3);
  EXPECT_NE(whole.optimizer.Restore(whole.weights, other.optimizer.State(), 1)
                .message()
                .find("learner.moments is int8"),
            std::string::npos);
}

TEST(BlockMoments, AGradientOfZeroLeavesWeightsAlone) {
  Trained bytes({.moments_in_blocks = true});
  bytes.Step(at::zeros({kNumbers / 64, 64}), 1e-3);
  EXPECT_EQ(Norm(bytes.Moved()), 0);
}

}  // namespace
}  // namespace tidemill
