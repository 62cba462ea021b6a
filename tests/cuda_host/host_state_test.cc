// The optimizer's state on the host, piece by piece, on streams that work as late as they may: what
// one of them does not wait for comes out wrong.
#include "model/torch/host_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.h"
#include "model/torch/aten.h"
#include "tests/cuda_host/memory.h"

namespace tidemill {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

constexpr AdamWUpdate kUpdate{.beta1 = 0.9f,
                              .beta2 = 0.95f,
                              .eps = 1e-8f,
                              .decay = 1.0f - 1e-4f,
                              .rate = 1e-3f,
                              .root = 0.3f,
                              .grad_scale = 0.5f};

Tensor Drawn(int64_t count, double scale, Random& random) {
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) number = scale * random.Normal();
  return at::tensor(numbers, at::kDouble).to(at::kBFloat16);
}

// The same parameters twice: their state in memory of the GPU, and on the host.
class HostStateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    host_ = nullptr;
    cudaStreamDestroy(stream_);
  }

  void Make(const std::vector<int64_t>& counts, int64_t piece) {
    expected_.clear();
    there_.clear();
    kept_.clear();
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::string name = "w" + std::to_string(i);
      expected_[name] = Drawn(counts[i], 0.02, random_);
      there_[name] = expected_[name].clone();
    }
    auto made = HostState::New(there_, piece);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    host_ = std::move(*made);
    for (const auto& [name, parameter] : expected_) {
      const CudaSplitMoments& places = *host_->Of(name);
      for (const Tensor& tensor : All(places)) tensor.zero_();
      kept_[name] = {places.rest.clone(), places.first.clone(), places.first_scales.clone(),
                     places.second.clone(), places.second_scales.clone()};
    }
  }
  // Work of the learner's stream that is not done yet when the update is queued.
  void Step(uint64_t step, const std::string& without = "") {
    std::vector<Tensor> drawn;
    for (auto& [name, parameter] : expected_) {
      if (name == without) continue;
      const Tensor grad = Drawn(parameter.numel(), 0.1, random_);
      drawn.push_back(at::full_like(grad, NAN));
      cudaMemcpyAsync(drawn.back().data_ptr(), grad.data_ptr(), grad.nbytes(),
                      cudaMemcpyDeviceToDevice, stream_);
      drawn.push_back(grad);
      CudaSplitAdamWStep(kUpdate, step, grad, parameter, kept_.at(name));
      host_->Add(name, kUpdate, drawn[drawn.size() - 2], there_.at(name));
    }
    const Status ran = host_->Run(step, stream_);
    ASSERT_TRUE(ran.ok()) << ran.ToString();
    alive_.insert(alive_.end(), drawn.begin(), drawn.end());
  }
  static std::vector<Tensor> All(const CudaSplitMoments& m) {
    return {m.rest, m.first, m.first_scales, m.second, m.second_scales};
  }
  void ExpectSame() {
    ASSERT_TRUE(host_->Wait().ok());
    for (const auto& [name, parameter] : expected_) {
      EXPECT_TRUE(at::equal(parameter, there_.at(name))) << name;
      const std::vector<Tensor> got = All(*host_->Of(name)), expected = All(kept_.at(name));
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(at::equal(got[i], expected[i])) << name << ", array " << i;
      }
    }
  }

  Random random_{5};
  cudaStream_t stream_ = nullptr;
  NamedTensors expected_, there_;
  std::map<std::string, CudaSplitMoments> kept_;
  std::unique_ptr<HostState> host_;
  std::vector<Tensor> alive_;  // a GPU's allocator would keep them for the stream
};

// Less than a block, a block, several pieces; more pieces than buffers and fewer.
TEST_F(HostStateTest, UpdatesAsIfTheStateWereOnTheGpuToTheLastBit) {
  for (const int64_t piece : {int64_t{1024}, int64_t{2048}, int64_t{5120}, int64_t{1} << 20}) {
    Make({7, 64, 100, 1024, 6145, 1, 2048, 10 * 1024 + 65, 3000}, piece);
    for (uint64_t step = 1; step <= 4; ++step) Step(step);
    ExpectSame();
    Step(5);
    ExpectSame();
  }
}

TEST_F(HostStateTest, OnePieceAloneIsNotReadBeforeItIsWritten) {
  Make({300}, 1024);
  for (uint64_t step = 1; step <= 6; ++step) Step(step);
  ExpectSame();
}

TEST_F(HostStateTest, WhatIsNotAddedStaysAsItIs) {
  Make({500, 3000, 70}, 1024);
  Step(1);
  Step(2, /*without=*/"w1");
  Step(3, /*without=*/"w0");
  ExpectSame();
}

TEST_F(HostStateTest, WhatIsWrittenAfterAWaitCounts) {
  Make({500, 3000}, 1024);
  Step(1);
  ExpectSame();
  host_->Of("w0")->rest.fill_(123);
  kept_["w0"].rest.fill_(123);
  host_->Of("w1")->second_scales.fill_(2e-4);
  kept_["w1"].second_scales.fill_(2e-4);
  Step(2);
  ExpectSame();
}

TEST_F(HostStateTest, ItsTensorsMayOutliveIt) {
  Make({500}, 1024);
  Step(1);
  ASSERT_TRUE(host_->Wait().ok());
  const Tensor rest = host_->Of("w0")->rest, expected = kept_["w0"].rest;
  host_ = nullptr;
  EXPECT_TRUE(at::equal(rest, expected));
}

TEST_F(HostStateTest, KeepsNothingOfParametersInFloat32) {
  const NamedTensors mixed{{"a", at::zeros({10}, at::kFloat)},
                           {"b", at::zeros({10}, at::kBFloat16)}};
  auto made = HostState::New(mixed);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ((*made)->Of("a"), nullptr);
  EXPECT_NE((*made)->Of("b"), nullptr);
  EXPECT_EQ(HostState::New({{"a", mixed.at("a")}}).status().code(), Code::kInvalid);
}

TEST_F(HostStateTest, PinnedMemoryThatIsNotThereIsAnErrorThatNamesItsBytesAndTheKey) {
  const NamedTensors parameters{{"w", at::zeros({1 << 20}, at::kBFloat16)}};
  cuda_host::BoundPinned(size_t{1} << 20);
  const Status refused = HostState::New(parameters).status();
  cuda_host::BoundPinned();
  EXPECT_EQ(refused.code(), Code::kFull);
  EXPECT_THAT(refused.message(), HasSubstr("no 4 MiB of pinned memory"));
  EXPECT_THAT(refused.message(), HasSubstr("learner.optimizer_state"));
  EXPECT_TRUE(HostState::New(parameters).ok());
}

}  // namespace
}  // namespace tidemill
