#include "learner/minibatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "testing/learner_samples.h"

namespace tidemill {
namespace {

// Which sequences a minibatch has, by part.
std::vector<std::vector<int32_t>> Chosen(const std::vector<Minibatch>& minibatches) {
  std::vector<std::vector<int32_t>> chosen;
  for (const Minibatch& minibatch : minibatches) {
    auto& rows = chosen.emplace_back();
    for (const Microbatch& part : minibatch.parts) {
      rows.insert(rows.end(), part.sequences.begin(), part.sequences.end());
    }
  }
  return chosen;
}

TEST(CutMinibatches, KeepsGroupsTogetherInAnOrderThatSeedStepAndEpochDecide) {
  StepBatch batch;
  for (uint32_t i = 0; i < 32; ++i) {
    // Eight prompts of 3 tokens in turn.
    const std::vector<uint32_t> prompt(3, 50 + i % 8);
    batch.sequences.push_back(
        *Flatten(MakeSample(1, i, 0, prompt, {{{i, i}, {-1, -1}, {{1, 2}}, {}, ""}}), {}));
    batch.advantages.push_back({1.0});
  }
  const MinibatchOptions options{.minibatches = 4, .token_budget = 1000, .seed = 7};
  const auto cut = Chosen(CutMinibatches(batch, 3, 0, options));
  ASSERT_EQ(cut.size(), 4u);
  std::set<int32_t> seen;
  for (const auto& rows : cut) {
    EXPECT_EQ(rows.size(), 8u);
    std::map<int32_t, int> members;
    for (int32_t row : rows) {
      EXPECT_TRUE(seen.insert(row).second);
      ++members[row % 8];
    }
    EXPECT_THAT(members, ::testing::Each(::testing::Pair(::testing::_, 4)));
  }
  EXPECT_EQ(Chosen(CutMinibatches(batch, 3, 0, options)), cut);
  EXPECT_NE(Chosen(CutMinibatches(batch, 3, 1, options)), cut);
  EXPECT_NE(Chosen(CutMinibatches(batch, 4, 0, options)), cut);
}

}  // namespace
}  // namespace tidemill
