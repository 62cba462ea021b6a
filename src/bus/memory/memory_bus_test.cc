#include "bus/memory/memory_bus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/bus_contract.h"

namespace tidemill {
namespace {

class MemoryHarness final : public BusHarness {
 public:
  Bus& client(int) override { return bus_; }
  void Advance(Duration d) override {
    clock_.Advance(d);
    bus_.Poll();
  }

 private:
  VirtualClock clock_;
  MemoryBus bus_{clock_};
};

INSTANTIATE_TEST_SUITE_P(Memory, BusContract, ::testing::Values(BusHarnessFactory([] {
                           return std::make_unique<MemoryHarness>();
                         })));

constexpr Duration kSecond = std::chrono::seconds(1);

class MemoryBusTest : public ::testing::Test {
 protected:
  VirtualClock clock_;
  MemoryBus bus_{clock_};
};

TEST_F(MemoryBusTest, NextDeadlineIsTheEarliestLeaseOrDelay) {
  EXPECT_EQ(bus_.NextDeadline(), kNever);
  ASSERT_TRUE(bus_.Open("a", {.lease = 30 * kSecond}).ok());
  ASSERT_TRUE(bus_.Open("b", {.lease = 20 * kSecond}).ok());
  ASSERT_TRUE(bus_.Publish("a", "x").ok());
  ASSERT_TRUE(bus_.Publish("b", "y").ok());
  EXPECT_EQ(bus_.NextDeadline(), kNever);
  auto a = bus_.Receive("a", 1);
  EXPECT_EQ(bus_.NextDeadline(), clock_.Now() + 30 * kSecond);
  auto b = bus_.Receive("b", 1);
  EXPECT_EQ(bus_.NextDeadline(), clock_.Now() + 20 * kSecond);
  ASSERT_TRUE(bus_.Release(a->at(0), 5 * kSecond).ok());
  EXPECT_EQ(bus_.NextDeadline(), clock_.Now() + 5 * kSecond);
  ASSERT_TRUE(bus_.Ack(b->at(0)).ok());
  clock_.Advance(5 * kSecond);
  bus_.Poll();
  EXPECT_EQ(bus_.NextDeadline(), kNever);
}

TEST_F(MemoryBusTest, ALeaseEndsExactlyAtItsDeadline) {
  ASSERT_TRUE(bus_.Open("t", {.lease = kSecond}).ok());
  ASSERT_TRUE(bus_.Publish("t", "x").ok());
  auto held = bus_.Receive("t", 1);
  clock_.Advance(kSecond - Duration(1));
  EXPECT_TRUE(bus_.Receive("t", 1)->empty());
  ASSERT_TRUE(bus_.Extend(held->at(0)).ok());
  clock_.Advance(kSecond);
  EXPECT_EQ(bus_.Ack(held->at(0)).code(), Code::kNotFound);
  EXPECT_EQ(bus_.Receive("t", 1)->size(), 1u);
}

TEST_F(MemoryBusTest, LeasesEndInTheOrderOfTheirDeadlinesAlsoAfterTheLeaseWasMadeShorter) {
  ASSERT_TRUE(bus_.Open("t", {.lease = 100 * kSecond}).ok());
  for (const char* body : {"a", "b", "c"}) ASSERT_TRUE(bus_.Publish("t", body).ok());
  auto first = bus_.Receive("t", 2);
  ASSERT_TRUE(bus_.Open("t", {.lease = 10 * kSecond}).ok());
  auto last = bus_.Receive("t", 1);
  ASSERT_TRUE(bus_.Extend(first->at(0)).ok());
  EXPECT_EQ(bus_.NextDeadline(), clock_.Now() + 10 * kSecond);
  clock_.Advance(10 * kSecond);
  auto again = bus_.Receive("t", 10);
  EXPECT_THAT(Bodies(*again), testing::UnorderedElementsAre("a", "c"));
  clock_.Advance(90 * kSecond);
  EXPECT_EQ(bus_.Ack(first->at(1)).code(), Code::kNotFound);
}

TEST_F(MemoryBusTest, AFullDeadLetterTopicDropsItsOldestAndCountsIt) {
  ASSERT_TRUE(bus_.Open("t", {}).ok());
  ASSERT_TRUE(bus_.Open(kDeadTopic, {.capacity = 2}).ok());
  auto kill = [&](const std::string& body) {
    ASSERT_TRUE(bus_.Publish("t", body).ok());
    ASSERT_TRUE(bus_.Reject(bus_.Receive("t", 1)->at(0), "no").ok());
  };
  for (const char* body : {"1", "2", "3"}) kill(body);
  EXPECT_EQ(bus_.DroppedDeadLetters(), 1u);
  auto letters = bus_.Receive(kDeadTopic, 10);
  ASSERT_EQ(letters->size(), 2u);
  v1::DeadLetter letter;
  ASSERT_TRUE(letter.ParseFromString(letters->at(0).body));
  EXPECT_EQ(letter.body(), "2");
  // With every kept letter held, the newest is the one that goes.
  kill("4");
  EXPECT_EQ(bus_.DroppedDeadLetters(), 2u);
  EXPECT_EQ(bus_.Depth("t")->dead, 4u);
  EXPECT_EQ(bus_.Depth(kDeadTopic)->leased, 2u);
}

TEST_F(MemoryBusTest, TopicsNamesWhatIsOpen) {
  ASSERT_TRUE(bus_.Open("b", {}).ok());
  ASSERT_TRUE(bus_.Open("a", {}).ok());
  ASSERT_TRUE(bus_.Remove("b").ok());
  EXPECT_THAT(bus_.Topics(), testing::ElementsAre("a", "dead"));
}

TEST_F(MemoryBusTest, AWakerMayUseTheBusWhileItIsWoken) {
  class Reader final : public Waker {
   public:
    explicit Reader(Bus& bus) : bus_(bus) {}
    void Wake() override { got += bus_.Receive("t", 10)->size(); }
    size_t got = 0;

   private:
    Bus& bus_;
  } reader(bus_);
  ASSERT_TRUE(bus_.Open("t", {}).ok());
  bus_.Subscribe("t", reader);
  ASSERT_TRUE(bus_.Publish("t", "x").ok());
  EXPECT_EQ(reader.got, 1u);
  bus_.Unsubscribe(reader);
}

TEST(BusTicker, WakesASubscriberWhenALeaseRunsOutInRealTime) {
  RealClock clock;
  MemoryBus bus(clock);
  BusTicker ticker(bus, milliseconds(1));
  ASSERT_TRUE(bus.Open("t", {.lease = milliseconds(10)}).ok());
  ASSERT_TRUE(bus.Publish("t", "x").ok());
  ASSERT_EQ(bus.Receive("t", 1)->size(), 1u);
  Bell waker;
  bus.Subscribe("t", waker);
  EXPECT_TRUE(waker.WaitPast(0, std::chrono::seconds(20)));
  bus.Unsubscribe(waker);
}

TEST(MemoryBusThreads, RemoveAndOpenAmongSubscribersAndPublishersIsSafe) {
  RealClock clock;
  MemoryBus bus(clock);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        (void)bus.Publish("t", "x");
        auto leases = bus.Receive("t", 4);
        if (leases.ok()) {
          for (const Lease& lease : *leases) (void)bus.Ack(lease);
        }
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop) {
      Bell waker;
      bus.Subscribe("t", waker);
      bus.Poll();
      bus.Unsubscribe(waker);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(bus.Open("t", {}).ok());
    (void)bus.Remove("t");
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(bus.Open("t", {}).ok());
  EXPECT_TRUE(bus.Publish("t", "x").ok());
  EXPECT_EQ(bus.Receive("t", 10)->size(), 1u);
}

}  // namespace
}  // namespace tidemill
