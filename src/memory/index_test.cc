#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "memory/lexical_index.h"
#include "memory/vector_index.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<uint64_t> Numbers(const std::vector<Match>& found) {
  std::vector<uint64_t> numbers;
  for (const Match& match : found) numbers.push_back(match.number);
  return numbers;
}

TEST(LexicalIndex, RareWordsCountMost) {
  LexicalIndex index;
  index.Add(1, "s", "the sum of the list");
  index.Add(2, "s", "the product of the tree");
  index.Add(3, "s", "the sum of the tree");
  index.Add(4, "t", "the product of the list");
  EXPECT_EQ(Numbers(index.Search("s", "PRODUCT!", 5)), std::vector<uint64_t>{2});
  EXPECT_EQ(index.Search("s", "product of the tree", 5)[0].number, 2u);
  index.Remove(2);
  EXPECT_THAT(index.Search("s", "product", 5), IsEmpty());
  EXPECT_THAT(index.Search("s", "\"' AND ( * scope:", 5), IsEmpty());
  EXPECT_THAT(index.Search("u", "sum", 5), IsEmpty());
}

// Everything compared with everything, in double precision.
TEST(VectorIndex, FindsWhatAnExhaustiveSearchFinds) {
  for (const size_t width : {5u, 64u, 200u}) {
    Random random(width);
    VectorIndex index;
    std::vector<std::vector<float>> all;
    const auto draw = [&] {
      std::vector<float> vector(width);
      for (float& x : vector) x = static_cast<float>(random.Normal());
      return vector;
    };
    for (uint64_t i = 1; i <= 5000; ++i) {
      all.push_back(draw());
      ASSERT_TRUE(index.Add(i, "s", all.back()));
    }
    int missed = 0;
    for (int query = 0; query < 20; ++query) {
      std::vector<float> asked = all[random.Below(all.size())];
      for (float& x : asked) x += static_cast<float>(0.7 * random.Normal());
      std::vector<std::pair<double, uint64_t>> exact;
      for (size_t i = 0; i < all.size(); ++i) {
        double dot = 0, aa = 0, bb = 0;
        for (size_t j = 0; j < width; ++j) {
          dot += double{asked[j]} * all[i][j];
          aa += double{asked[j]} * asked[j];
          bb += double{all[i][j]} * all[i][j];
        }
        exact.emplace_back(-dot / std::sqrt(aa * bb), i + 1);
      }
      std::sort(exact.begin(), exact.end());
      missed += index.Search("s", asked, 1)[0].number != exact[0].second;
    }
    // Folding 200 numbers into 64 bytes may lose one now and then.
    EXPECT_LE(missed, width > 64 ? 1 : 0) << width;
  }
}

TEST(VectorIndex, WhatIsRemovedIsNotFound) {
  VectorIndex index;
  for (uint64_t i = 1; i <= 4; ++i) {
    const std::vector<float> vector = {static_cast<float>(i), 1.0f};
    index.Add(i, "s", vector);
  }
  const std::vector<float> query = {1.0f, 1.0f};
  EXPECT_THAT(Numbers(index.Search("s", query, 9)), ElementsAre(1, 2, 3, 4));
  index.Remove(1);
  index.Remove(3);
  EXPECT_THAT(Numbers(index.Search("s", query, 9)), ElementsAre(2, 4));
  const std::vector<float> wrong = {1.0f}, nothing = {0.0f, 0.0f}, infinite = {INFINITY, 0.0f};
  EXPECT_FALSE(index.Add(9, "s", wrong));
  EXPECT_FALSE(index.Add(9, "s", nothing));
  EXPECT_FALSE(index.Add(9, "s", infinite));
  EXPECT_EQ(index.size(), 2u);
}

}  // namespace
}  // namespace tidemill
