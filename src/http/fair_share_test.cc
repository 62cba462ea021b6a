// Owners of requests share memory for bodies, and turns.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "http/body_budget.h"
#include "http/fair_queue.h"

namespace tidemill {
namespace {

TEST(BodyBudget, AnOwnerHoldsAsMuchAsItLeavesFree) {
  BodyBudget budget(1000);
  BodyBudget::Room hog(budget, {.tenant = 1});
  EXPECT_TRUE(hog.Grow(500));
  EXPECT_FALSE(hog.Grow(1));
  {
    BodyBudget::Room same(budget, {.tenant = 1});
    EXPECT_FALSE(same.Grow(1)) << "one owner's bodies count together";
  }
  BodyBudget::Room other(budget, {.tenant = 2}), agent(budget, {.entrance = 1, .tenant = 1});
  EXPECT_TRUE(other.Grow(250));
  EXPECT_FALSE(other.Grow(1));
  EXPECT_TRUE(agent.Grow(125)) << "another entrance is another owner";
}

TEST(BodyBudget, HoweverManyHoldAllTheyCanANewcomerFindsRoom) {
  BodyBudget budget(size_t{256} << 20);
  std::deque<BodyBudget::Room> hogs;
  for (uint64_t tenant = 1; tenant <= 8; ++tenant) {
    BodyBudget::Room& hog = hogs.emplace_back(budget, RequestOwner{.tenant = tenant});
    while (hog.Grow(64 * 1024)) {
    }
  }
  BodyBudget::Room newcomer(budget, {.tenant = 100});
  EXPECT_TRUE(newcomer.Grow(64 * 1024));
}

TEST(BodyBudget, WhatABodyTookIsGivenBack) {
  BodyBudget budget(1000);
  for (int i = 0; i < 10; ++i) {
    BodyBudget::Room room(budget, {.tenant = 1});
    EXPECT_TRUE(room.Grow(400) && room.Grow(100));
    EXPECT_FALSE(room.Grow(SIZE_MAX));
  }
}

TEST(FairQueue, OwnersTakeTurns) {
  FairQueue queue;
  std::vector<int> done;
  const auto push = [&](uint64_t tenant, int what) {
    queue.Push({.tenant = tenant}, [&done, what] { done.push_back(what); });
  };
  for (int i = 0; i < 3; ++i) push(1, 10 + i);
  push(2, 20);
  queue.Pop()();
  push(3, 30);
  push(2, 21);
  for (int i = 0; i < 5; ++i) queue.Pop()();
  EXPECT_EQ(done, (std::vector<int>{10, 20, 11, 30, 21, 12}));
}

}  // namespace
}  // namespace tidemill
