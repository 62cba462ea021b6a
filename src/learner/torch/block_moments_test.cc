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

// One set of weights and its optimizer; `split` into bfloat16 and a rest, by gradients in bfloat16.
struct Trained {
  explicit Trained(const AdamWOptions& options, bool split = false) : optimizer(options) {
    const at::Tensor start = Start();
    weights.emplace("w", start.to(split ? at::kBFloat16 : at::kFloat).set_requires_grad(true));
    optimizer.TakeExact(weights, {{"w", start}});
  }
  void Step(const at::Tensor& gradient, double rate) {
    weights.at("w").mutable_grad() = gradient.to(weights.at("w").scalar_type());
    optimizer.Step(weights, rate);
  }
  at::Tensor Exact() const { return optimizer.Exact(weights).at("w"); }
  at::Tensor Moved() const { return (Exact() - Start()).to(at::kDouble); }

  NamedTensors weights;
  AdamW optimizer;
};

double Norm(const at::Tensor& tensor) {
  return tensor.norm().item<double>();
}

TEST(BlockMoments, OverAThousandStepsWeightsMoveAsWithFloat32) {
  // A slower second moment moves by less than one code in a step, and errors last longer.
  for (const auto& [beta2, bound] : {std::pair{0.95, 0.015}, std::pair{0.999, 0.05}}) {
    const AdamWOptions in_blocks{.beta2 = beta2, .moments_in_blocks = true};
    Trained exact({.beta2 = beta2}), bytes(in_blocks), halves(in_blocks, /*split=*/true);
    Trained alone(in_blocks, /*split=*/true);
    Gradients gradients(3);
    for (int step = 0; step < 1000; ++step) {
      const at::Tensor gradient = gradients.Next();
      alone.optimizer.SharedState().at("rest.w").zero_();
      for (Trained* trained : {&exact, &bytes, &halves, &alone}) trained->Step(gradient, 1e-6);
    }
    const at::Tensor expected = exact.Moved();
    EXPECT_GT(Norm(expected), 1e-3 * std::sqrt(kNumbers) * 0.1) << "they moved";
    for (const Trained* trained : {&bytes, &halves}) {
      const at::Tensor moved = trained->Moved();
      EXPECT_LT(Norm(moved - expected) / Norm(expected), bound) << "beta2 " << beta2;
      EXPECT_NEAR(Norm(moved) / Norm(expected), 1, 0.02) << "beta2 " << beta2;
    }
    // Without their rest they stand still: a step is less than half a unit of most of them.
    const at::Tensor stood = alone.Exact() - Start().to(at::kBFloat16);
    EXPECT_GT(Norm(stood.to(at::kDouble) - expected) / Norm(expected), 0.8);
  }
}

// Against AdamW as the paper has it, in double.
TEST(SplitWeights, FollowAdamWInDoubleThroughDecayAndClipping) {
  constexpr double kRate = 1e-4, kDecay = 0.1, kScale = 0.7;
  Trained halves({.weight_decay = kDecay, .moments_in_blocks = true}, /*split=*/true);
  Gradients gradients(8);
  at::Tensor p = Start().to(at::kDouble), m = at::zeros_like(p), v = at::zeros_like(p);
  for (int step = 1; step <= 200; ++step) {
    const at::Tensor gradient = gradients.Next();
    halves.weights.at("w").mutable_grad() = gradient.to(at::kBFloat16);
    halves.optimizer.Step(halves.weights, kRate, kScale);
    const at::Tensor g = gradient.to(at::kDouble) * kScale;
    m = 0.9 * m + 0.1 * g;
    v = 0.95 * v + 0.05 * g * g;
    p = p - kRate * kDecay * p -
        kRate * (m / (1 - std::pow(0.9, step))) / ((v / (1 - std::pow(0.95, step))).sqrt() + 1e-8);
  }
  const at::Tensor expected = p - Start().to(at::kDouble);
  EXPECT_LT(Norm(halves.Moved() - expected) / Norm(expected), 0.03);
}

TEST(SplitWeights, AreTheFloat32WeightsTheyWereMadeOfToTheLastBit) {
  const Trained halves({.moments_in_blocks = true}, /*split=*/true);
  EXPECT_TRUE(at::equal(halves.Exact(), Start()));
  EXPECT_FALSE(at::equal(halves.weights.at("w").detach().to(at::kFloat), Start()));
}

TEST(SplitWeights, TakeEightBytesAndAnEighthANumber) {
  Trained halves({.moments_in_blocks = true}, /*split=*/true);
  Gradients gradients(3);
  halves.Step(gradients.Next(), 1e-3);
  size_t total = halves.weights.at("w").nbytes() + halves.weights.at("w").grad().nbytes();
  for (const auto& [name, tensor] : halves.optimizer.SharedState()) total += tensor.nbytes();
  EXPECT_EQ(total, 8 * kNumbers + kNumbers / 8);
}

TEST(SplitWeights, GoOnFromASavedStateBitForBit) {
  Trained whole({.moments_in_blocks = true}, true), resumed({.moments_in_blocks = true}, true);
  Gradients gradients(4);
  for (int step = 0; step < 5; ++step) whole.Step(gradients.Next(), 1e-5);
  {
    const at::NoGradGuard no_grad;
    resumed.weights.at("w").copy_(whole.weights.at("w"));
  }
  ASSERT_TRUE(resumed.optimizer.Restore(resumed.weights, whole.optimizer.State(), 5).ok());
  EXPECT_TRUE(at::equal(whole.Exact(), resumed.Exact()));
  for (int step = 0; step < 5; ++step) {
    const at::Tensor gradient = gradients.Next();
    whole.Step(gradient, 1e-5);
    resumed.Step(gradient, 1e-5);
  }
  EXPECT_TRUE(at::equal(whole.Exact(), resumed.Exact()));
}

// Before the first step there are no moments, but there is a rest.
TEST(SplitWeights, AStateBeforeTheFirstStepHoldsTheRest) {
  Trained halves({.moments_in_blocks = true}, true);
  const NamedTensors state = halves.optimizer.State();
  ASSERT_EQ(state.size(), 1u);
  const at::Tensor before = halves.weights.at("w").detach().clone();
  Gradients gradients(4);
  halves.Step(gradients.Next(), 1e-3);
  ASSERT_TRUE(halves.optimizer.Restore(halves.weights, state, 0).ok());
  const at::NoGradGuard no_grad;
  halves.weights.at("w").copy_(before);
  EXPECT_TRUE(at::equal(halves.Exact(), Start()));
}

TEST(SplitWeights, AreNotMixedUpWithFloat32Ones) {
  Gradients gradients(4);
  Trained halves({.moments_in_blocks = true}, true), bytes({.moments_in_blocks = true}), exact({});
  for (Trained* trained : {&halves, &bytes, &exact}) trained->Step(gradients.Next(), 1e-3);
  for (Trained* other : {&bytes, &exact}) {
    const Status narrow = other->optimizer.Restore(other->weights, halves.optimizer.State(), 1);
    EXPECT_EQ(narrow.code(), Code::kInvalid);
    EXPECT_NE(narrow.message().find("the weights here are float32"), std::string::npos);
    const Status wide = halves.optimizer.Restore(halves.weights, other->optimizer.State(), 1);
    EXPECT_EQ(wide.code(), Code::kInvalid);
    EXPECT_NE(wide.message().find("the weights here are bfloat16"), std::string::npos);
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

TEST(BlockMoments, GradientsTooSmallForTheirSquaresDoNoHarm) {
  Trained bytes({.moments_in_blocks = true});
  at::Tensor gradient = at::full({kNumbers / 64, 64}, 1e-20);
  gradient[0].zero_();
  for (int step = 0; step < 3; ++step) bytes.Step(gradient, 1e-3);
  EXPECT_LT(Norm(bytes.Moved()), 1e-9);
}

TEST(BlockMoments, AGradientOfZeroLeavesWeightsAlone) {
  Trained bytes({.moments_in_blocks = true});
  bytes.Step(at::zeros({kNumbers / 64, 64}), 1e-3);
  EXPECT_EQ(Norm(bytes.Moved()), 0);
}

}  // namespace
}  // namespace tidemill
