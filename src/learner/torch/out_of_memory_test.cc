// Steps that memory does not suffice for.
#include "model/torch/aten.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "learner/torch/checkpoint.h"
#include "learner/torch/trainer.h"
#include "testing/test_kit.h"
#include "testing/tiny_policy.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

// Memory for so many tokens at a time.
std::function<void(int64_t)> RoomFor(int64_t tokens_max) {
  return [=](int64_t tokens) {
    if (tokens <= tokens_max) return;
    throw c10::OutOfMemoryError({__func__, __FILE__, 1}, "tried to allocate 9 GiB");
  };
}

class OutOfMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> Make(int64_t budget, std::function<void(int64_t)> on_microbatch = {}) {
    TrainerOptions options;
    options.objective = *ObjectivePreset("grpo");
    options.schedule.peak = 1e-3;
    options.microbatch_tokens = budget;
    options.minibatches = 2;
    options.on_microbatch = std::move(on_microbatch);
    return std::move(Trainer::New(weights_, options)).value();
  }
  v1::Batch Batch(uint64_t step) {
    v1::Batch batch = RandomBatch(*weights_, step, /*groups=*/24);  // about 1,200 tokens
    batch.set_step(step);
    return batch;
  }
  void ExpectSame(const Trainer& got, const Trainer& expected) {
    for (const auto& [name, tensor] : WeightsOf(expected)) {
      EXPECT_TRUE(at::equal(tensor, WeightsOf(got).at(name))) << name;
    }
    for (const auto& [name, tensor] : expected.OptimizerState()) {
      EXPECT_TRUE(at::equal(tensor, got.OptimizerState().at(name))) << name;
    }
  }

  std::shared_ptr<const PolicyWeights> weights_ = TinyWeights(TinyConfig());
};

// The second minibatch fails after the first has changed the weights.
TEST_F(OutOfMemoryTest, TheStepIsRepeatedWithHalfTheBudgetWhichStays) {
  auto hungry = Make(4096, RoomFor(200));
  for (uint64_t step = 0; step < 3; ++step) {
    const auto report = hungry->Train(Batch(step));
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    const double budget = report->metrics.at("token_budget");
    EXPECT_LT(budget, 4096);
    EXPECT_GE(budget, 64);
    if (step == 0) {
      EXPECT_FALSE(report->warnings.empty());
      EXPECT_THAT(report->warnings.front(), HasSubstr("token budget of 4096"));
      EXPECT_THAT(report->warnings.front(), HasSubstr("tried to allocate 9 GiB"));
    } else {
      EXPECT_TRUE(report->warnings.empty()) << "the smaller budget stays";
    }
  }
  auto same = Make(hungry->progress().token_budget);
  for (uint64_t step = 0; step < 3; ++step) ASSERT_TRUE(same->Train(Batch(step)).ok());
  ExpectSame(*hungry, *same);
}

TEST_F(OutOfMemoryTest, OnlyOneMinibatchFailingUndoesTheOther) {
  int calls = 0;
  auto once = Make(4096, [&](int64_t) {
    if (++calls == 2) throw std::bad_alloc();
  });
  ASSERT_TRUE(once->Train(Batch(0)).ok());
  EXPECT_EQ(once->progress().token_budget, 2048);
  auto expected = Make(2048);
  ASSERT_TRUE(expected->Train(Batch(0)).ok());
  ExpectSame(*once, *expected);
}

// What CUDA finds no memory for is not always libtorch's.
TEST_F(OutOfMemoryTest, IsKnownByItsWords) {
  for (const char* words : {"CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED",
                            "DefaultCPUAllocator: can't allocate memory"}) {
    int calls = 0;
    auto once = Make(4096, [&](int64_t) {
      if (++calls == 1) throw std::runtime_error(words);
    });
    ASSERT_TRUE(once->Train(Batch(0)).ok()) << words;
    EXPECT_EQ(once->progress().token_budget, 2048) << words;
  }
}

TEST_F(OutOfMemoryTest, WhatDoesNotFitInTheSmallestPartsFailsAndChangesNothing) {
  auto never = Make(4096, RoomFor(0));
  const auto report = never->Train(Batch(0));
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.status().message(), HasSubstr("tried to allocate 9 GiB"));
  ExpectSame(*never, *Make(4096));
  EXPECT_EQ(never->progress().steps, 0u);
}

TEST_F(OutOfMemoryTest, OtherFailuresAreNotRepeated) {
  int calls = 0;
  auto broken = Make(4096, [&](int64_t) {
    ++calls;
    throw std::runtime_error("a broken cable");
  });
  EXPECT_THAT(broken->Train(Batch(0)).status().message(), HasSubstr("a broken cable"));
  EXPECT_EQ(calls, 1);
}

TEST_F(OutOfMemoryTest, AResumedRunRepeatsTheBudget) {
  const TemporaryDirectory directory;
  const std::string dir = directory.path() + "/step-2";
  auto whole = Make(4096, RoomFor(300));
  for (uint64_t step = 0; step < 2; ++step) ASSERT_TRUE(whole->Train(Batch(step)).ok());
  ASSERT_TRUE(SaveCheckpoint(*whole, dir, {2, 3}, "").ok());
  const auto third = whole->Train(Batch(2));
  ASSERT_TRUE(third.ok());
  // From the checkpoint, on a machine with more room.
  auto resumed = Make(4096);
  ASSERT_TRUE(LoadCheckpoint(dir, *resumed).ok());
  const auto again = resumed->Train(Batch(2));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->metrics.at("token_budget"), third->metrics.at("token_budget"));
  ExpectSame(*resumed, *whole);
  // From before it ran out, with what was recorded of its steps.
  auto earlier = Make(4096);
  earlier->RepeatBudgets({{0, 4096}, {1, 512}});
  EXPECT_EQ(earlier->Train(Batch(0))->metrics.at("token_budget"), 4096);
  EXPECT_EQ(earlier->Train(Batch(1))->metrics.at("token_budget"), 512);
  EXPECT_EQ(earlier->Train(Batch(2))->metrics.at("token_budget"), 512);
}

}  // namespace
}  // namespace tidemill
