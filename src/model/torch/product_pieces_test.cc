#include "model/torch/product_pieces.h"

#include <gtest/gtest.h>

#include <vector>

namespace tidemill {
namespace {

std::vector<int64_t> Pieces(int64_t rows, double row_operations, double most) {
  std::vector<int64_t> counts;
  int64_t expected = 0;
  InPieces(rows, row_operations, most, [&](int64_t first, int64_t count) {
    EXPECT_EQ(first, expected);
    expected = first + count;
    counts.push_back(count);
  });
  EXPECT_EQ(expected, rows);
  return counts;
}

TEST(ProductPieces, WithoutABoundAProductIsWhole) {
  EXPECT_EQ(Pieces(1000, 1e9, 0), (std::vector<int64_t>{1000}));
  EXPECT_EQ(Pieces(1000, 1e9, 1e12), (std::vector<int64_t>{1000}));
  EXPECT_TRUE(Pieces(0, 1e9, 1e10).empty());
}

TEST(ProductPieces, AreEvenAndOfWholeTiles) {
  EXPECT_EQ(Pieces(1024, 1, 512), (std::vector<int64_t>{512, 512}));
  EXPECT_EQ(Pieces(1200, 1, 600), (std::vector<int64_t>{640, 560}));
  EXPECT_EQ(Pieces(900, 1, 400), (std::vector<int64_t>{384, 384, 132}));
}

TEST(ProductPieces, HaveATileOfRowsAtLeast) {
  EXPECT_EQ(Pieces(300, 1e9, 1), (std::vector<int64_t>{128, 128, 44}));
}

}  // namespace
}  // namespace tidemill
