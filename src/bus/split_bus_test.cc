// A split bus is a bus: the contract, with its topics on either side, and where they are.
#include "bus/split_bus.h"

#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "testing/bus_test_kit.h"

namespace tidemill {
namespace {

struct SplitBusTest : testing::Test {
  VirtualClock clock;
  MemoryBus outer{clock}, inner{clock};
  SplitBus bus{outer, inner, {"inside", "inbox.inside"}};
};

TEST_F(SplitBusTest, EveryTopicIsOnItsSideAndOnNoOther) {
  ASSERT_TRUE(bus.Open("inside", {}).ok());
  ASSERT_TRUE(bus.Open("outside", {}).ok());
  ASSERT_TRUE(bus.Publish("inside", "a").ok());
  ASSERT_TRUE(bus.Publish("outside", "b").ok());
  EXPECT_EQ(outer.Depth("inside").status().code(), Code::kNotFound);
  EXPECT_EQ(inner.Depth("outside").status().code(), Code::kNotFound);
  for (const char* topic : {"inside", "outside"}) {
    auto leases = bus.Receive(topic, 5);
    ASSERT_EQ(leases->size(), 1u);
    const Lease lease = leases->at(0);
    EXPECT_EQ(bus.Depth(topic)->leased, 1u);
    EXPECT_TRUE(bus.Extend(lease).ok());
    EXPECT_TRUE(bus.Release(lease, Duration(0)).ok());
    leases = bus.Receive(topic, 5);
    ASSERT_EQ(leases->size(), 1u);
    EXPECT_TRUE(bus.Ack(leases->at(0)).ok());
    EXPECT_EQ(bus.Depth(topic)->leased, 0u);
    EXPECT_TRUE(bus.Remove(topic).ok());
  }
}

TEST_F(SplitBusTest, ARequestAndItsInboxAreOnOneSide) {
  for (const char* topic : {"inside", "inbox.inside", "outside", "inbox.outside"})
    ASSERT_TRUE(bus.Open(topic, {}).ok());
  EXPECT_EQ(bus.PublishRequest("inside", "inbox.outside", "q").code(), Code::kInvalid);
  EXPECT_EQ(bus.PublishRequest("outside", "inbox.inside", "q").code(), Code::kInvalid);
  EXPECT_TRUE(bus.PublishRequest("inside", "inbox.inside", "q").ok());
  EXPECT_TRUE(bus.PublishReply("inbox.inside", "a").ok());
  EXPECT_EQ(inner.Depth("inbox.inside")->ready, 1u);
  EXPECT_TRUE(bus.Forgive("inbox.inside", 1).ok());
}

TEST_F(SplitBusTest, WakersAndTheEndReachBothSides) {
  ASSERT_TRUE(bus.Open("inside", {}).ok());
  ASSERT_TRUE(bus.Open("outside", {}).ok());
  Bell waker;
  bus.Subscribe("inside", waker);
  bus.Subscribe("outside", waker);
  ASSERT_TRUE(outer.Publish("outside", "x").ok());
  EXPECT_TRUE(waker.WaitPast(0, std::chrono::seconds(10)));
  bus.Unsubscribe(waker);
  bus.Close();
  EXPECT_EQ(bus.Publish("inside", "x").code(), Code::kClosed);
  EXPECT_EQ(bus.Publish("outside", "x").code(), Code::kClosed);
}

}  // namespace
}  // namespace tidemill
