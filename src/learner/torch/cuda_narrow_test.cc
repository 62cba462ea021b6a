// Training in the narrow form (model/torch/cuda_leaves.h): weights, gradients and moments in 8.1
// bytes a parameter. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/random.h"
#include "learner/torch/block_moments.h"
#include "model/cuda/train_kernels.h"
#include "model/torch/aten.h"
#include "model/torch/host_copy.h"
#include "model/torch/moved_weights.h"
#include "testing/gpu_test_kit.h"
#include "testing/tiny_policy.h"
#ifdef TIDEMILL_CUDA
#include "model/torch/cuda_leaves.h"
#include "model/torch/cuda_train.h"
#endif

namespace tidemill {
namespace {

using at::Tensor;

double HostNorm(const Tensor& tensor) {
  return HostCopy(tensor, at::kDouble).norm().item<double>();
}
double HostRelative(const Tensor& got, const Tensor& expected) {
  return (HostCopy(got, at::kDouble) - HostCopy(expected, at::kDouble)).norm().item<double>() /
         (HostNorm(expected) + 1e-30);
}

#ifdef TIDEMILL_CUDA

// A parameter with everything AdamW has of it.
struct SplitState {
  SplitState(int64_t count, uint64_t seed) {
    Random random(seed);
    const auto make = [](int64_t size, at::ScalarType type, auto&& number) {
      std::vector<double> numbers(static_cast<size_t>(size));
      for (double& one : numbers) one = number();
      return at::tensor(numbers, at::kDouble).to(type);
    };
    const auto code = [&] { return static_cast<double>(random.Below(256)); };
    grad = make(count, at::kBFloat16, [&] { return random.Normal() * random.LogNormal(1e-3, 2); });
    high = make(count, at::kBFloat16, [&] { return 0.02 * random.Normal(); });
    moments.rest =
        make(count, at::kShort, [&] { return static_cast<double>(random.Below(65536)) - 32768; });
    moments.first = make(count, at::kByte, code);
    moments.second = make(count, at::kByte, code);
    const int64_t blocks = MomentBlocks(count);
    moments.first_scales = make(blocks, at::kFloat, [&] { return random.LogNormal(1e-3, 2); });
    moments.second_scales = make(blocks, at::kFloat, [&] { return random.LogNormal(1e-6, 2); });
  }
  std::map<std::string, Tensor> All() const {
    return {{"high", high},
            {"rest", moments.rest},
            {"first", moments.first},
            {"first_scales", moments.first_scales},
            {"second", moments.second},
            {"second_scales", moments.second_scales}};
  }
  // To the device of the tests, `off` numbers into its memory.
  void Move(int64_t off) {
    for (Tensor* tensor : {&grad, &high, &moments.rest, &moments.first, &moments.first_scales,
                           &moments.second, &moments.second_scales}) {
      const Tensor whole =
          at::zeros({tensor->size(0) + off}, tensor->options().device(at::Device(kTestDevice)));
      whole.narrow(0, off, tensor->size(0)).copy_(*tensor);
      *tensor = whole.narrow(0, off, tensor->size(0));
    }
  }
  Tensor grad, high;
  CudaSplitMoments moments;
};

constexpr AdamWUpdate kUpdate{.beta1 = 0.9f,
                              .beta2 = 0.95f,
                              .eps = 1e-8f,
                              .decay = 1.0f - 1e-5f,
                              .rate = 1e-4f,
                              .root = 0.3f,
                              .grad_scale = 0.5f};

void StepOnCpu(SplitState& state, uint64_t step) {
  UpdateSplitBlocks(
      kUpdate, step, static_cast<const uint16_t*>(state.grad.data_ptr()),
      {static_cast<uint16_t*>(state.high.data_ptr()), state.moments.rest.data_ptr<int16_t>()},
      {state.moments.first.data_ptr<uint8_t>(), state.moments.first_scales.data_ptr<float>(),
       state.moments.second.data_ptr<uint8_t>(), state.moments.second_scales.data_ptr<float>()},
      state.high.numel());
}

// Numbers that are no multiple of anything, and memory that is not aligned. On a GPU a root may
// round to another code where a number lies on the edge of two.
TEST(CudaSplitAdamW, MovesWeightsAndMomentsAsTheCpuDoesToTheLastBit) {
  SKIP_WITHOUT_GPU();
  for (const int64_t count : {1, 7, 8, 63, 64, 65, 127, 2048, 2055, 5003}) {
    for (const int64_t off : {0, 1, 8}) {
      const uint64_t seed = static_cast<uint64_t>(count * 10 + off);
      SplitState here(count, seed), there(count, seed);
      there.Move(off);
      StepOnCpu(here, 7);
      CudaSplitAdamWStep(kUpdate, 7, there.grad, there.high, there.moments);
      const auto got = there.All();
      for (const auto& [name, expected] : here.All()) {
        const Tensor host = HostCopy(got.at(name));
        if (!kGpuOnCpu && (name == "first" || name == "second")) {
          const Tensor apart = (host.to(at::kInt) - expected.to(at::kInt)).abs();
          EXPECT_LE(apart.max().item<int>(), 1) << name << ", " << count << " numbers";
          EXPECT_LE(apart.sum().item<int64_t>(), count / 500) << name;
        } else {
          EXPECT_TRUE(at::equal(host, expected)) << name << ", " << count << " numbers, " << off;
        }
      }
    }
  }
}

TEST(CudaSplitAdamW, WritesNothingBesideItsNumbers) {
  SKIP_WITHOUT_GPU();
  SplitState state(77, 3);
  state.Move(0);
  const Tensor around = at::full({200}, 7, state.moments.first.options());
  around.narrow(0, 50, 77).copy_(state.moments.first);
  state.moments.first = around.narrow(0, 50, 77);
  CudaSplitAdamWStep(kUpdate, 1, state.grad, state.high, state.moments);
  EXPECT_TRUE(at::equal(HostCopy(around.narrow(0, 0, 50)), at::full({50}, 7, at::kByte)));
  EXPECT_TRUE(at::equal(HostCopy(around.narrow(0, 127, 73)), at::full({73}, 7, at::kByte)));
}

// One token at most places: in bfloat16 the later ones would change nothing any more.
TEST(CudaNarrow, WhatATokenHasAtManyPlacesIsAddedUpBeforeItIsRounded) {
  SKIP_WITHOUT_GPU();
  auto weights = MovedWeights(TinyWeights(TinyConfig()), kTestDevice, at::kFloat);
  ASSERT_TRUE(weights.ok());
  const auto leaves = MakeCudaLeaves(TinyConfig(), (*weights)->tensors(), /*narrow=*/true);
  constexpr int64_t kPlaces = 1000;
  Tensor tokens = at::full({kPlaces}, 5, at::kLong);
  tokens[0] = 7;
  tokens = tokens.to(at::Device(kTestDevice));
  const Tensor dy = at::full({kPlaces, 32}, 0.0371, leaves->low.options());
  for (int pass = 1; pass <= 2; ++pass) {
    const Tensor rows = EmbedLeaves(leaves->parameters.at("model.embed_tokens.weight"), tokens,
                                    {leaves, &leaves->embed});
    rows.backward(dy);
    const double one = dy[0][0].item<double>();
    const Tensor gradient = HostCopy(leaves->embed.weight_gradient, at::kDouble);
    EXPECT_NEAR(gradient[5][3].item<double>(), pass * (kPlaces - 1) * one, 0.005 * pass * 40);
    EXPECT_NEAR(gradient[7][31].item<double>(), pass * one, 0.005 * one);
    EXPECT_EQ(gradient[6].abs().max().item<double>(), 0);
  }
}

#endif  // TIDEMILL_CUDA

class NarrowTrainer : public ::testing::Test {
 protected:
  static TrainerOptions Options(bool narrow) {
    TrainerOptions options;
    options.objective = *ObjectivePreset("grpo");
    options.schedule.peak = 1e-3;
    options.bfloat16 = true;
    options.publish_dtype = Dtype::kBF16;
    options.adamw.moments_in_blocks = narrow;
    return options;
  }
  std::unique_ptr<Trainer> Make(const TrainerOptions& options) const {
    auto there = MovedWeights(weights_, kTestDevice, at::kFloat);
    EXPECT_TRUE(there.ok()) << there.status().ToString();
    auto trainer = Trainer::New(*there, options);
    EXPECT_TRUE(trainer.ok()) << trainer.status().ToString();
    return std::move(*trainer);
  }
  v1::Batch Batch(uint64_t step) const {
    v1::Batch batch = RandomBatch(*weights_, step);
    batch.set_step(step);
    return batch;
  }
  void Train(Trainer& trainer, uint64_t first, uint64_t last) const {
    for (uint64_t step = first; step < last; ++step) {
      const auto report = trainer.Train(Batch(step));
      ASSERT_TRUE(report.ok()) << report.status().ToString();
    }
  }
  static void ExpectSame(const NamedTensors& got, const NamedTensors& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      EXPECT_TRUE(at::equal(HostCopy(tensor), HostCopy(got.at(name)))) << name;
    }
  }
  static void ExpectGradientsNear(const Trainer& got, const Trainer& expected, double bound) {
    for (const auto& [name, leaf] : expected.Leaves()) {
      // A key's bias moves all scores of a query alike, which softmax does not see: pure rounding.
      if (name.ends_with("k_proj.bias")) continue;
      EXPECT_LT(HostRelative(got.Leaves().at(name).grad(), leaf.grad()), bound) << name;
    }
  }

  const std::shared_ptr<const PolicyWeights> weights_ = TinyWeights(TinyConfig());
};

TEST_F(NarrowTrainer, BeginsWithTheWeightsItWasGivenToTheLastBit) {
  SKIP_WITHOUT_GPU();
  const auto trainer = Make(Options(true));
  ExpectSame((*trainer->ExactSnapshot())->tensors(), weights_->tensors());
  for (const auto& [name, leaf] : trainer->Leaves()) {
    EXPECT_EQ(leaf.scalar_type(), at::kBFloat16) << name;
  }
}

TEST_F(NarrowTrainer, HasTheGradientsOfFloat32LeavesButForTheirRounding) {
  SKIP_WITHOUT_GPU();
  for (const bool recompute : {false, true}) {
    TrainerOptions options = Options(true), exact = Options(false);
    options.recompute = exact.recompute = recompute;
    auto narrow = Make(options), wide = Make(exact);
    const auto mine = narrow->Train(Batch(3)), theirs = wide->Train(Batch(3));
    ASSERT_TRUE(mine.ok() && theirs.ok());
    ExpectGradientsNear(*narrow, *wide, 0.01);
    EXPECT_NEAR(mine->metrics.at("grad_norm") / theirs->metrics.at("grad_norm"), 1, 0.005);
    EXPECT_NEAR(mine->metrics.at("loss"), theirs->metrics.at("loss"), 1e-3);
  }
}

TEST_F(NarrowTrainer, TheCutIntoMicrobatchesChangesTheGradientByRoundingOnly) {
  SKIP_WITHOUT_GPU();
  TrainerOptions small = Options(true);
  small.microbatch_tokens = 48;
  auto parts = Make(small), whole = Make(Options(true));
  Train(*parts, 0, 1);
  Train(*whole, 0, 1);
  ExpectGradientsNear(*parts, *whole, 0.02);
}

// The same batches to all. Runs that differ by the order of sums alone drift apart as well: what
// they say of a batch and where they end is compared with that.
TEST_F(NarrowTrainer, LearnsAsFloat32DoesWithinTheNoiseOfRounding) {
  SKIP_WITHOUT_GPU();
  TrainerOptions options = Options(true), exact = Options(false), other = Options(false);
  options.schedule.peak = exact.schedule.peak = other.schedule.peak = 3e-4;
  other.microbatch_tokens = 24;
  auto narrow = Make(options), wide = Make(exact), cut = Make(other);
  double apart = 0, noise = 0, kl = 0, kl_expected = 0;
  for (uint64_t step = 0; step < 50; ++step) {
    v1::Batch batch = RandomBatch(*weights_, step, /*groups=*/1);
    batch.set_step(step);
    const auto mine = narrow->Train(batch), theirs = wide->Train(batch), others = cut->Train(batch);
    ASSERT_TRUE(mine.ok() && theirs.ok() && others.ok());
    apart += std::abs(mine->metrics.at("loss") - theirs->metrics.at("loss"));
    noise += std::abs(others->metrics.at("loss") - theirs->metrics.at("loss"));
    kl += mine->metrics.at("policy_kl");
    kl_expected += theirs->metrics.at("policy_kl");
  }
  const NamedTensors end = (*wide->ExactSnapshot())->tensors();
  const auto from_end = [&](const NamedTensors& tensors) {
    double sum = 0;
    for (const auto& [name, tensor] : tensors) {
      sum += std::pow(HostNorm(HostCopy(tensor) - HostCopy(end.at(name))), 2);
    }
    return std::sqrt(sum);
  };
  const double distance = from_end((*narrow->ExactSnapshot())->tensors());
  const double usual = from_end((*cut->ExactSnapshot())->tensors());
  std::printf("after 50 steps: %.3f apart of %.3f moved; float32 with another order of sums %.3f\n",
              distance, from_end(weights_->tensors()), usual);
  EXPECT_LT(apart, 2 * noise);
  EXPECT_NEAR(kl / kl_expected, 1, 0.1);
  EXPECT_LT(distance, 2 * usual);
}

// Memory of everything that stays between steps, counted by the blocks that tensors are parts of.
TEST_F(NarrowTrainer, KeepsEightBytesAndAnEighthANumberAndNoFloat32) {
  SKIP_WITHOUT_GPU();
  const auto trainer = Make(Options(true));
  Train(*trainer, 0, 2);
  std::map<const void*, size_t> blocks;
  int64_t numbers = 0, scales = 0;
  const auto add = [&](const Tensor& tensor) {
    blocks[tensor.storage().data()] = tensor.storage().nbytes();
  };
  for (const auto& [name, leaf] : trainer->Leaves()) {
    add(leaf);
    add(leaf.grad());
    EXPECT_EQ(leaf.grad().scalar_type(), at::kBFloat16) << name;
    numbers += leaf.numel();
  }
  EXPECT_EQ(blocks.size(), 2u);
  for (const auto& [name, tensor] : trainer->SharedOptimizerState()) {
    add(tensor);
    const bool scale = name.starts_with("m_scale.") || name.starts_with("v_scale.");
    EXPECT_EQ(tensor.scalar_type() == at::kFloat, scale) << name;
    if (scale) scales += tensor.numel();
  }
  size_t bytes = 0;
  for (const auto& [block, size] : blocks) bytes += size;
  // Tensors of these sizes end inside a block of moments, and the layout leaves gaps.
  const size_t gaps = trainer->Leaves().size() * 127 * 4;
  EXPECT_LE(bytes, static_cast<size_t>(8 * numbers + 4 * scales) + gaps);
  EXPECT_LE(scales, 2 * (numbers / 64 + static_cast<int64_t>(trainer->Leaves().size())));
}

TEST_F(NarrowTrainer, PublishesItsBlockAsItIs) {
  SKIP_WITHOUT_GPU();
  const auto trainer = Make(Options(true));
  Train(*trainer, 0, 1);
  const auto snapshot = trainer->Snapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  std::set<const void*> blocks;
  for (const auto& [name, tensor] : (*snapshot)->tensors()) {
    EXPECT_TRUE(at::equal(HostCopy(tensor), HostCopy(trainer->Leaves().at(name)))) << name;
    blocks.insert(tensor.storage().data());
  }
  EXPECT_EQ(blocks.size(), 1u);
  EXPECT_FALSE(blocks.contains(trainer->Leaves().begin()->second.storage().data()));
}

// In the first step there are no moments yet, in the third there are.
TEST_F(NarrowTrainer, AStepWhoseSecondMinibatchFailsIsUndone) {
  SKIP_WITHOUT_GPU();
  TrainerOptions options = Options(true);
  options.minibatches = 3;
  int left = -1;
  options.on_microbatch = [&](int64_t) {
    if (left >= 0 && left-- == 0) throw std::runtime_error("no more");
  };
  auto trainer = Make(options), other = Make(options);
  for (uint64_t step = 0; step < 3; ++step) {
    const NamedTensors weights = (*trainer->ExactSnapshot())->tensors();
    const NamedTensors state = trainer->OptimizerState();
    left = 1;
    EXPECT_FALSE(trainer->Train(Batch(step)).ok());
    left = -1;
    ExpectSame((*trainer->ExactSnapshot())->tensors(), weights);
    ExpectSame(trainer->OptimizerState(), state);
    Train(*trainer, step, step + 1);
    Train(*other, step, step + 1);
  }
  if (kGpuOnCpu) {  // on a GPU sums are added up in another order each time
    ExpectSame((*trainer->ExactSnapshot())->tensors(), (*other->ExactSnapshot())->tensors());
  }
}

}  // namespace
}  // namespace tidemill
