#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "core/hash.h"
#include "core/random.h"
#include "core/status.h"

namespace tidemill {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Invalid("odd");
  return n / 2;
}

Result<int> Quarter(int n) {
  TM_ASSIGN_OR_RETURN(int half, Half(n));
  return Half(half);
}

TEST(Status, AFailurePassesThroughTheMacro) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_EQ(Quarter(6).status().WithContext("six").ToString(), "invalid: six: odd");
}

// Counts how many of its kind are alive.
struct Counted {
  explicit Counted(int& alive) : alive(&alive) { ++alive; }
  Counted(const Counted& other) : alive(other.alive) { ++*alive; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive; }
  int* alive;
};

TEST(Result, WhatATemporaryHeldOutlivesIt) {
  int alive = 0;
  auto make = [&]() -> Result<Counted> { return Counted(alive); };
  {
    const Counted& by_star = *make();
    EXPECT_EQ(*by_star.alive, 1);
    const Counted& by_value = make().value();
    EXPECT_EQ(*by_value.alive, 2);
  }
  EXPECT_EQ(alive, 0);
  static_assert(std::is_same_v<decltype(Half(1).status()), Status>);
}

TEST(Result, ALoopMayGoOverATemporary) {
  auto words = []() -> Result<std::vector<std::string>> {
    return std::vector<std::string>{"long enough to be on the heap", "and so is this one of them"};
  };
  std::string all;
  for (const std::string& word : *words()) all += word + ".";
  EXPECT_EQ(all, "long enough to be on the heap.and so is this one of them.");
}

TEST(Hash, MatchesThePublishedVectorOfSha256) {
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, ATreeIsTheSameInAnyOrderAndWithOrWithoutItsContent) {
  v1::Tree a, b;
  auto add = [](v1::Tree& tree, const char* path, const char* content, bool inside) {
    v1::File& file = *tree.add_files();
    file.set_path(path);
    if (inside)
      file.set_content(content), file.set_has_content(true);
    else
      file.set_hash(Sha256Hex(content));
  };
  add(a, "x.c", "1", true), add(a, "y.c", "2", true);
  add(b, "y.c", "2", false), add(b, "x.c", "1", true);
  EXPECT_EQ(TreeHash(a), TreeHash(b));
  b.mutable_files(0)->set_executable(true);
  EXPECT_NE(TreeHash(a), TreeHash(b));
}

TEST(Random, ASplitDoesNotDependOnWhatWasDrawn) {
  Random a(7), b(7);
  a.Next();
  EXPECT_EQ(a.Split("x").Next(), b.Split("x").Next());
  EXPECT_NE(a.Split("x").Next(), a.Split("y").Next());
}

TEST(Random, BelowIsInRangeAndCoversIt) {
  Random random(1);
  int seen[5] = {};
  for (int i = 0; i < 1000; ++i) ++seen[random.Below(5)];
  for (int count : seen) EXPECT_GT(count, 100);
}

}  // namespace
}  // namespace tidemill
