// Servers that restart, forget or are fuller than the client thinks.
#include <gtest/gtest.h>

#include <set>

#include "bus/redis/topic_janitor.h"
#include "testing/redis_test_kit.h"

namespace tidemill {
namespace {

TEST(RedisBusRestart, NothingIsLostThroughARestartOfTheServer) {
  RedisTestServer server({"--appendonly", "yes"});
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(bus->Publish("t", std::to_string(i)).ok());
  auto held = Take(*bus, "t", 10);
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  server.Stop();
  // The server is gone; every call is answered all the same.
  for (int i = 50; i < 100; ++i) ASSERT_TRUE(bus->Publish("t", std::to_string(i)).ok());
  for (const Lease& lease : held) ASSERT_TRUE(bus->Ack(lease).ok());
  EXPECT_TRUE(bus->Receive("t", 100).ok());
  server.Start();
  std::set<std::string> seen;
  for (const Lease& lease : held) seen.insert(lease.body);
  for (const Lease& lease : Take(*bus, "t", 90)) {
    EXPECT_TRUE(seen.insert(lease.body).second) << lease.body << " came twice";
    EXPECT_TRUE(bus->Ack(lease).ok());
  }
  EXPECT_EQ(seen.size(), 100u);
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  EXPECT_EQ(StreamLength(server, "t"), 0);
  EXPECT_GE(bus->Stats().reconnects, 1u);
  EXPECT_EQ(bus->Stats().lost, 0u);
}

// Replies die with the server; what was done is not done again.
TEST(RedisBusRestart, NothingIsPublishedTwiceWhenTheServerIsKilledAgainAndAgain) {
  RedisTestServer server({"--appendonly", "yes", "--appendfsync", "always"});
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  constexpr int kMessages = 3000;
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(bus->Publish("t", std::to_string(i)).ok());
    if (i % 1000 == 500) {
      server.Stop(SIGKILL);
      server.Start();
    }
  }
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  EXPECT_EQ(StreamLength(server, "t"), kMessages);
}

TEST(RedisBusRestart, AnEmptyServerGetsItsTopicsAgain) {
  RedisTestServer server;  // keeps nothing
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Open("inbox", {}).ok());
  EXPECT_TRUE(bus->Receive("t", 1).ok());  // so that it waits for messages when the server goes
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  server.Stop();
  server.Start();
  ASSERT_TRUE(bus->PublishRequest("t", "inbox", "after").ok());
  auto leases = Take(*bus, "t", 1);
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].body, "after");
}

TEST(RedisBusRestart, TopicsComeBackAfterAFlushOfTheServer) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Publish("t", "before").ok());
  Lease lease = Take(*bus, "t", 1).at(0);
  EXPECT_TRUE(bus->Receive("t", 1)->empty());
  server.Do({"FLUSHALL"});
  EXPECT_TRUE(Eventually([&] { return bus->Extend(lease).code() == Code::kNotFound; }));
  ASSERT_TRUE(bus->Publish("t", "after").ok());
  EXPECT_EQ(Take(*bus, "t", 1).at(0).body, "after");
}

TEST(RedisBusRestart, AGroupThatWasDestroyedIsMadeAgainAndDeliversWhatIsThere) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  EXPECT_TRUE(bus->Receive("t", 2)->empty());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  const std::string stream = RedisKeys("test").Stream("t");
  EXPECT_EQ(server.Do({"XGROUP", "DESTROY", stream, kRedisGroup})->integer, 1);
  ASSERT_TRUE(bus->Publish("t", "x").ok());  // NOGROUP to every reader
  auto leases = Take(*bus, "t", 1);
  EXPECT_TRUE(bus->Ack(leases.at(0)).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  EXPECT_EQ(StreamLength(server, "t"), 0);
}

TEST(RedisBusRestart, FunctionsThatWereForgottenAreLoadedAgain) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  server.Do({"FUNCTION", "FLUSH"});
  ASSERT_TRUE(bus->Publish("t", "x").ok());
  EXPECT_EQ(Take(*bus, "t", 1).size(), 1u);
}

TEST(RedisBusRestart, AStreamThatWasDeletedIsALossThatEveryClientSees) {
  RedisTestServer server;
  auto one = Connect(server), other = Connect(server);
  for (RedisBus* bus : {one.get(), other.get()}) {
    ASSERT_TRUE(bus->Open("t", {}).ok());
    ASSERT_TRUE(bus->Flush(kPatience).ok());
  }
  ASSERT_TRUE(one->Publish("t", "lost").ok());
  ASSERT_TRUE(one->Flush(kPatience).ok());
  for (RedisBus* bus : {one.get(), other.get()}) {
    EXPECT_TRUE(Eventually([&] { return bus->Depth("t").ok() && bus->Depth("t")->ready == 1; }));
    EXPECT_EQ(bus->Losses(), 0u);
  }
  server.Do({"DEL", RedisKeys("test").Stream("t")});
  for (RedisBus* bus : {one.get(), other.get()}) {
    EXPECT_TRUE(Eventually([&] { return bus->Losses() == 1; }));
  }
  ASSERT_TRUE(one->Publish("t", "again").ok());
  EXPECT_EQ(Bodies(Take(*other, "t", 1)), std::vector<std::string>{"again"});
}

TEST(RedisBusRestart, AServerThatComesBackEmptyIsALoss) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  server.Do({"FLUSHALL"});
  EXPECT_TRUE(Eventually([&] { return bus->Losses() > 0; }));
}

TEST(RedisBusRestart, AScriptThatDoesNotEndIsEnded) {
  RedisTestServer server({"--busy-reply-threshold", "20"});
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  RedisAddress address;
  address.host = "127.0.0.1";
  address.port = server.port();
  auto hostile = RedisConnection::Connect(address, kPatience).value();
  hostile->Send({"EVAL", "while true do end", "0"}, [](const ReplyPtr&) {});
  ASSERT_TRUE(hostile->Write().ok());
  ASSERT_TRUE(bus->Publish("t", "x").ok());
  EXPECT_TRUE(bus->Flush(kPatience).ok());
}

TEST(RedisBusRestart, BodiesThatNoBusWritesAreRemovedWhereMemoryIsShort) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Publish("t", "kept").ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  constexpr size_t kBodyMax = 1 << 20;
  const std::string large(6 << 20, 'x');
  server.Do({"SET", "{test}:body:nobody:1", large});
  server.Do({"XADD", RedisKeys("test").Stream("t"), "*", "b", large});
  server.Do({"CONFIG", "SET", "maxmemory", "8mb"});
  ASSERT_TRUE(bus->Publish("t", "refused").ok());
  EXPECT_TRUE(Eventually([&] { return bus->Stats().no_memory > 0; }));
  TopicJanitor janitor(*bus, RedisClient::Connect(server.url()).value(), "test", {}, kBodyMax);
  EXPECT_TRUE(bus->Flush(kPatience).ok()) << "there is room again";
  EXPECT_EQ(Bodies(Take(*bus, "t", 2)), (std::vector<std::string>{"kept", "refused"}));
}

TEST(RedisBusRestart, WhatNoMessageNamesGoesWhereMemoryIsShortAndMessagesKeepTheirs) {
  RedisTestServer server;
  auto bus = Connect(server, [](RedisBusOptions& options) { options.inline_max = 10; });
  ASSERT_TRUE(bus->Open("t", {.capacity = 10}).ok());
  const std::string waits(100, 'w'), held(100, 'h'), later(100, 'l');
  for (const std::string& body : {held, later}) ASSERT_TRUE(bus->Publish("t", body).ok());
  const std::vector<Lease> leases = Take(*bus, "t", 2);
  ASSERT_EQ(leases.size(), 2u);
  ASSERT_TRUE(bus->Release(leases[1], std::chrono::hours(1)).ok());
  ASSERT_TRUE(bus->Publish("t", waits).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  const std::string stream = RedisKeys("test").Stream("t");
  for (int i = 0; i < 100; ++i) {
    server.Do({"SET", "{test}:body:nobody:" + std::to_string(i), std::string(60'000, 'x')});
    server.Do({"XADD", stream, "*", "b", std::string(1000, 'x')});
  }
  server.Do({"CONFIG", "SET", "maxmemory", "4mb"});
  ASSERT_TRUE(bus->Open("other", {}).ok());
  ASSERT_TRUE(bus->Publish("other", "more").ok());
  EXPECT_TRUE(Eventually([&] { return bus->Stats().no_memory > 0; }));
  TopicJanitor janitor(*bus, RedisClient::Connect(server.url()).value(), "test", {});
  EXPECT_TRUE(Eventually([&] {
    return server.Do({"EXISTS", "{test}:body:nobody:7"})->integer == 0 && bus->Losses() > 0;
  }));
  EXPECT_LE(StreamLength(server, "t"), 21);
  auto client = RedisClient::Connect(server.url()).value();
  std::set<std::string> unnamed;
  for (int look = 0; look < 2; ++look) {
    EXPECT_TRUE(RemoveUnnamed(client, RedisKeys("test"), unnamed).ok());
  }
  EXPECT_EQ(Take(*bus, "t", 1).at(0).body, waits) << "its body is there";
  EXPECT_TRUE(bus->Extend(leases[0]).ok());
  const auto bodies = server.Do({"KEYS", "{test}:body:*"});
  EXPECT_EQ(bodies->elements, 3u) << "of what waits, what is held and what comes later";
}

// A view of a topic that another client has filled meanwhile.
class RedisBusFull : public ::testing::Test {
 protected:
  void Prepare(Duration full_patience) {
    late_ = Connect(server_, [&](RedisBusOptions& options) {
      options.tick = kHour;  // it never hears what others do
      options.full_patience = full_patience;
    });
    other_ = Connect(server_);
    for (RedisBus* bus : {late_.get(), other_.get()}) {
      ASSERT_TRUE(bus->Open("in", {}).ok());
      ASSERT_TRUE(bus->Open("out", {.capacity = 2}).ok());
    }
    ASSERT_TRUE(late_->Publish("in", "work").ok());
    lease_ = Take(*late_, "in", 1).at(0);
    ASSERT_TRUE(late_->Flush(kPatience).ok());
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(other_->Publish("out", "filler").ok());
    ASSERT_TRUE(other_->Flush(kPatience).ok());
    ASSERT_TRUE(late_->Publish("out", "result").ok());
    ASSERT_TRUE(late_->Ack(lease_).ok());
  }

  RedisTestServer server_;
  std::unique_ptr<RedisBus> late_, other_;
  Lease lease_;
};

TEST_F(RedisBusFull, APublishTheServerRefusesWaitsAndWhatFollowsDoesNotOvertakeIt) {
  Prepare(kHour);
  EXPECT_TRUE(Eventually([&] { return late_->Stats().refused > 3; }));
  EXPECT_EQ(StreamLength(server_, "in"), 1) << "the acknowledgement outran the result";
  EXPECT_EQ(StreamLength(server_, "out"), 2);
  EXPECT_EQ(late_->Publish("out", "more").code(), Code::kFull);
  ASSERT_TRUE(other_->Ack(Take(*other_, "out", 1).at(0)).ok());
  ASSERT_TRUE(late_->Flush(kPatience).ok());
  EXPECT_EQ(StreamLength(server_, "in"), 0);
  EXPECT_EQ(StreamLength(server_, "out"), 2);
  EXPECT_EQ(late_->Stats().forced, 0u);
}

TEST_F(RedisBusFull, ATopicThatStaysFullIsExceededRatherThanLockingTheBus) {
  Prepare(milliseconds(20));
  ASSERT_TRUE(late_->Flush(kPatience).ok());
  EXPECT_EQ(late_->Stats().forced, 1u);
  EXPECT_EQ(StreamLength(server_, "in"), 0);
  EXPECT_EQ(StreamLength(server_, "out"), 3);
}

}  // namespace
}  // namespace tidemill
