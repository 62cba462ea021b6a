#include "tinker/op_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(OpQueue, GivesAModelsOperationsInTheOrderOfTheirNumbers) {
  OpQueue queue(16);
  queue.AddModel("a", 1);
  for (const uint64_t seq : {2, 3, 1}) queue.Add("a", seq);
  for (uint64_t wanted = 1; wanted <= 3; ++wanted) {
    const auto turn = queue.Take();
    ASSERT_TRUE(turn);
    EXPECT_EQ(turn->seq, wanted);
    queue.Done("a");
  }
  EXPECT_EQ(queue.waiting(), 0u);
}

TEST(OpQueue, ModelsTakeTurnsAndAGapHoldsItsOwnModelAlone) {
  OpQueue queue(16);
  for (const char* model : {"a", "b", "c"}) queue.AddModel(model, 1);
  for (const uint64_t seq : {1, 2, 3}) queue.Add("a", seq);
  queue.Add("b", 1);
  queue.Add("c", 2);  // 1 has not come
  std::string order;
  for (int i = 0; i < 4; ++i) {
    const auto turn = queue.Take();
    order += turn->model + std::to_string(turn->seq) + " ";
    queue.Done(turn->model);
  }
  EXPECT_EQ(order, "a1 b1 a2 a3 ");
  EXPECT_EQ(queue.waiting(), 1u);
}

TEST(OpQueue, OneOfAModelAtATime) {
  OpQueue queue(16);
  queue.AddModel("a", 1);
  queue.AddModel("b", 1);
  queue.Add("a", 1);
  queue.Add("a", 2);
  ASSERT_EQ(queue.Take()->seq, 1u);
  queue.Add("b", 1);
  EXPECT_EQ(queue.Take()->model, "b");
  queue.Done("a");
  EXPECT_EQ(queue.Take()->seq, 2u);
}

TEST(OpQueue, ARepeatedNumberIsDoneOnce) {
  OpQueue queue(16);
  queue.AddModel("a", 1);
  queue.Add("a", 1);
  queue.Add("a", 1);
  ASSERT_TRUE(queue.Take());
  queue.Done("a");
  queue.Add("a", 1);
  EXPECT_EQ(queue.waiting(), 0u);
}

TEST(OpQueue, IsBoundedButForTheOneThatAllWaitFor) {
  OpQueue queue(2);
  queue.AddModel("a", 1);
  queue.Add("a", 2);
  queue.Add("a", 3);
  EXPECT_EQ(queue.Room("a", 4).code(), Code::kFull);
  EXPECT_TRUE(queue.Room("a", 1).ok());
  EXPECT_EQ(queue.Room("b", 1).code(), Code::kNotFound);
}

TEST(OpQueue, StopEndsAWaitAndADroppedModelIsNotGivenAway) {
  OpQueue queue(16);
  queue.AddModel("a", 1);
  queue.Add("a", 1);
  queue.DropModel("a");
  std::optional<OpQueue::Turn> turn = OpQueue::Turn{};
  std::thread taker([&] { turn = queue.Take(); });
  queue.Stop();
  taker.join();
  EXPECT_FALSE(turn);
}

}  // namespace
}  // namespace tidemill
