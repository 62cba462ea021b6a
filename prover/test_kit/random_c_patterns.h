// The usual ways to use an array in a loop, as trees for random C functions.
#pragma once

#include <string>

#include "core/random.h"
#include "prover/test_kit/random_c_tree.h"

namespace tidemill {

// Loops over one array of `length` elements and a result, an int. All stay in bounds and, where the
// array's values are below 100, in the range of an int.
class RandomCPatterns {
 public:
  RandomCPatterns(std::string array, std::string result, int length)
      : array_(std::move(array)), result_(std::move(result)), length_(length) {}

  // Each element becomes the value, which may name the index "i".
  RandomLine Fill(RandomPiece value) const;
  // Sorts, turns, rotates, sums up, counts or searches.
  RandomLine Draw(Random& random) const;
  // The result takes every element in.
  RandomLine Read(Random& random) const;

 private:
  RandomPiece At(RandomPiece index) const;
  RandomLine Each(const std::string& index, int turns, std::vector<RandomLine> body) const;
  RandomLine SetElement(RandomPiece index, const std::string& update, RandomPiece value) const;
  RandomLine SetResult(const std::string& update, RandomPiece value) const;
  std::vector<RandomLine> Swap(const RandomPiece& one, const RandomPiece& other) const;
  RandomLine Reorder(Random& random) const;
  RandomLine Update(Random& random) const;
  RandomLine Gather(Random& random) const;

  const std::string array_;
  const std::string result_;
  const int length_;
};

}  // namespace tidemill
