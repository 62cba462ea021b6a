#include "replay/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "replay/sum_tree.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

// What every selector promises.
class SelectorContract : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Selector> Make(uint64_t seed = 1) {
    return std::move(NewSelector(GetParam(), Random(seed), 0.6)).value();
  }
};

TEST_P(SelectorContract, SaysWhatIsUnknownKnownOrWrong) {
  auto selector = Make();
  EXPECT_EQ(selector->Sample().status().code(), Code::kNotFound);
  EXPECT_EQ(selector->Remove(1).code(), Code::kNotFound);
  EXPECT_EQ(selector->Update(1, 1).code(), Code::kNotFound);
  ASSERT_TRUE(selector->Insert(1, 1).ok());
  EXPECT_EQ(selector->Insert(1, 1).code(), Code::kExists);
  EXPECT_EQ(selector->Insert(2, -1).code(), Code::kInvalid);
  EXPECT_EQ(selector->Insert(2, std::nan("")).code(), Code::kInvalid);
  EXPECT_EQ(selector->Update(1, -1).code(), Code::kInvalid);
  EXPECT_EQ(selector->size(), 1u);
  EXPECT_EQ(selector->Sample()->key, 1u);
}

TEST_P(SelectorContract, ChoosesOnlyWhatIsThereThroughAnyOrderOfChanges) {
  auto selector = Make();
  Random random(7);
  std::set<ItemKey> there;
  for (int i = 0; i < 3000; ++i) {
    const ItemKey key = random.Below(60);
    switch (random.Below(3)) {
      case 0:
        EXPECT_EQ(selector->Insert(key, random.Uniform()).ok(), there.insert(key).second);
        break;
      case 1:
        EXPECT_EQ(selector->Remove(key).ok(), there.erase(key) == 1);
        break;
      default:
        EXPECT_EQ(selector->Update(key, random.Uniform()).ok(), there.contains(key));
    }
    ASSERT_EQ(selector->size(), there.size());
    if (there.empty()) continue;
    const Selection selection = *selector->Sample();
    ASSERT_TRUE(there.contains(selection.key)) << "step " << i;
    ASSERT_GT(selection.probability, 0);
  }
}

TEST_P(SelectorContract, GivesTheSameChoicesForTheSameSeed) {
  auto first = Make(5);
  auto second = Make(5);
  for (ItemKey key = 0; key < 20; ++key) {
    ASSERT_TRUE(first->Insert(key, 1.0 + static_cast<double>(key)).ok());
    ASSERT_TRUE(second->Insert(key, 1.0 + static_cast<double>(key)).ok());
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(first->Sample()->key, second->Sample()->key);
}

INSTANTIATE_TEST_SUITE_P(All, SelectorContract,
                         ::testing::Values("fifo", "uniform", "prioritized"));

TEST(FifoSelector, ChoosesTheOldestThatIsLeft) {
  auto selector = NewFifoSelector();
  for (ItemKey key : {5, 3, 9}) ASSERT_TRUE(selector->Insert(key, 0).ok());
  EXPECT_EQ(selector->Sample()->key, 3u);
  ASSERT_TRUE(selector->Remove(3).ok());
  EXPECT_EQ(selector->Sample()->key, 5u);
  ASSERT_TRUE(selector->Insert(3, 0).ok());
  EXPECT_EQ(selector->Sample()->key, 3u) << "what comes back has its old place";
}

TEST(UniformSelector, ChoosesEachAboutEquallyOften) {
  auto selector = NewUniformSelector(Random(2));
  for (ItemKey key = 0; key < 4; ++key) ASSERT_TRUE(selector->Insert(key, 100.0 * key).ok());
  std::map<ItemKey, int> counts;
  for (int i = 0; i < 40000; ++i) ++counts[selector->Sample()->key];
  for (const auto& [key, count] : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(PrioritizedSelector, ChoosesInProportionToThePowerOfThePriority) {
  auto selector = NewPrioritizedSelector(Random(2), 2.0);
  ASSERT_TRUE(selector->Insert(1, 1).ok());
  ASSERT_TRUE(selector->Insert(2, 2).ok());
  ASSERT_TRUE(selector->Insert(3, 7).ok());
  ASSERT_TRUE(selector->Insert(4, 0).ok());
  ASSERT_TRUE(selector->Update(3, 3).ok());
  std::map<ItemKey, int> counts;
  for (int i = 0; i < 42000; ++i) {
    const Selection selection = *selector->Sample();
    ++counts[selection.key];
    EXPECT_NEAR(selection.probability, static_cast<double>(selection.key * selection.key) / 14,
                1e-12);
  }
  EXPECT_NEAR(counts[1], 3000, 300);
  EXPECT_NEAR(counts[2], 12000, 600);
  EXPECT_NEAR(counts[3], 27000, 600);
  EXPECT_EQ(counts[4], 0);
}

TEST(PrioritizedSelector, ChoosesAnyWhereEveryPriorityIsZero) {
  auto selector = NewPrioritizedSelector(Random(2), 1.0);
  ASSERT_TRUE(selector->Insert(1, 0).ok());
  ASSERT_TRUE(selector->Insert(2, 0).ok());
  std::set<ItemKey> seen;
  for (int i = 0; i < 100; ++i) seen.insert(selector->Sample()->key);
  EXPECT_EQ(seen.size(), 2u);
}

TEST(NewSelector, NamesTheKnownOnes) {
  EXPECT_THAT(NewSelector("lifo", Random(1), 1).status().message(),
              HasSubstr("\"lifo\"; known are fifo, uniform, prioritized"));
}

TEST(SumTree, AgreesWithARunningSumWhateverItsShape) {
  Random random(11);
  SumTree tree;
  std::vector<double> weights(37, 0.0);
  for (int round = 0; round < 500; ++round) {
    const size_t index = random.Below(weights.size());
    weights[index] = random.Chance(0.3) ? 0.0 : random.Uniform();
    tree.Set(index, weights[index]);
    double total = 0;
    for (double weight : weights) total += weight;
    ASSERT_NEAR(tree.total(), total, 1e-12);
    if (total == 0) continue;
    const double place = random.Uniform() * tree.total();
    const size_t found = tree.Find(place);
    double before = 0;
    for (size_t i = 0; i < found; ++i) before += weights[i];
    ASSERT_GT(weights[found], 0);
    ASSERT_GE(place, before - 1e-12);
    ASSERT_LE(place, before + weights[found] + 1e-12);
  }
}

TEST(SumTree, NeverFindsAnEmptyPlaceEvenAtTheVeryEnd) {
  SumTree tree;
  tree.Set(3, 0.1);
  tree.Set(5, 0.2);
  tree.Set(40, 0.0);
  EXPECT_EQ(tree.Find(tree.total()), 5u);
  EXPECT_EQ(tree.Find(tree.total() * 2), 5u);
  EXPECT_EQ(tree.Find(0), 3u);
}

}  // namespace
}  // namespace tidemill
