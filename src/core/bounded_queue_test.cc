#include "core/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace tidemill {
namespace {

TEST(BoundedQueue, GivesItemsInTheirOrder) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.TryPush(1) && queue.TryPush(2) && queue.Push(3));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.TryPop(), 2);
  EXPECT_EQ(queue.Pop(), 3);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueue, AFullQueueRefusesAndLeavesTheItemAlone) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);  // NOLINT(bugprone-use-after-move): that it was not is what is tested
}

TEST(BoundedQueue, WhatIsInsideWhenItClosesCanStillBeTaken) {
  BoundedQueue<int> queue(2);
  queue.Push(1);
  queue.Close();
  EXPECT_FALSE(queue.Push(2));
  EXPECT_FALSE(queue.TryPush(2));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_TRUE(queue.closed());
}

TEST(BoundedQueue, ClosingLetsEveryoneGoWhoWaits) {
  BoundedQueue<int> empty(1), full(1);
  full.Push(1);
  std::thread taker([&] { EXPECT_EQ(empty.Pop(), std::nullopt); });
  std::thread giver([&] { EXPECT_FALSE(full.Push(2)); });
  empty.Close();
  full.Close();
  taker.join();
  giver.join();
}

TEST(BoundedQueue, NothingIsLostOrDoubledBetweenThreads) {
  constexpr int kThreads = 3, kItems = 3000;
  BoundedQueue<int> queue(4);
  std::atomic<int64_t> sum{0}, count{0};
  std::vector<std::thread> takers, givers;
  for (int t = 0; t < kThreads; ++t) {
    takers.emplace_back([&] {
      while (auto item = queue.Pop()) sum += *item, ++count;
    });
    givers.emplace_back([&] {
      for (int i = 1; i <= kItems; ++i) queue.Push(i);
    });
  }
  for (auto& giver : givers) giver.join();
  queue.Close();
  for (auto& taker : takers) taker.join();
  EXPECT_EQ(count, kThreads * kItems);
  EXPECT_EQ(sum, int64_t{kThreads} * kItems * (kItems + 1) / 2);
}

}  // namespace
}  // namespace tidemill
