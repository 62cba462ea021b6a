// What is RedisBus's own beyond the contract: leases, topics, large bodies, bounds, connecting.
#include "bus/redis/redis_bus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <functional>
#include <map>
#include <set>

#include "bus/redis/redis_session.h"
#include "core/hash.h"
#include "core/mutex.h"
#include "proto/tidemill.pb.h"
#include "testing/redis_test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

TEST(RedisBusLeases, WhatADeadWorkerHeldIsTakenOverToTheLast) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {.lease = milliseconds(50)}).ok());
  constexpr size_t kHeld = 350;  // several pages of XAUTOCLAIM
  for (size_t i = 0; i < kHeld; ++i) ASSERT_TRUE(bus->Publish("t", std::to_string(i)).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  const std::string stream = RedisKeys("test").Stream("t");
  server.Do({"XREADGROUP", "GROUP", kRedisGroup, "ghost", "COUNT", "1000", "STREAMS", stream, ">"});
  std::set<std::string> seen;
  EXPECT_TRUE(Eventually([&] {
    auto leases = bus->Receive("t", 1000);
    for (const Lease& lease : *leases) {
      EXPECT_EQ(lease.deliveries, 2u);
      EXPECT_TRUE(bus->Ack(lease).ok());
      seen.insert(lease.body);
    }
    return seen.size() == kHeld;
  })) << seen.size();
}

TEST(RedisBusLeases, AnAcknowledgementByAnotherThanTheHolderIsRefusedByTheServer) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Publish("t", "x").ok());
  const Lease lease = Take(*bus, "t", 1).at(0);
  const std::string stream = RedisKeys("test").Stream("t");
  server.Do({"XCLAIM", stream, kRedisGroup, "thief", "0", lease.id});
  ASSERT_TRUE(bus->Ack(lease).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  EXPECT_EQ(bus->Stats().lost, 1u);
  EXPECT_EQ(StreamLength(server, "t"), 1);
}

TEST(RedisBusLeases, WhatWasFetchedAndNotReceivedIsGivenBackUncounted) {
  RedisTestServer server;
  auto slow = Connect(server, [](RedisBusOptions& options) { options.linger = milliseconds(20); });
  ASSERT_TRUE(slow->Open("t", {}).ok());
  EXPECT_TRUE(slow->Receive("t", 5)->empty());  // asks for five and never comes back
  ASSERT_TRUE(slow->Publish("t", "x").ok());
  // Twice where its reader still waited for more when the first came back.
  EXPECT_TRUE(Eventually([&] { return slow->Stats().given_back >= 1; }))
      << slow->Stats().given_back;
  auto other = Connect(server);
  ASSERT_TRUE(other->Open("t", {}).ok());
  const Lease lease = Take(*other, "t", 1).at(0);
  EXPECT_EQ(lease.deliveries, 1u);
  EXPECT_LE(slow->Stats().given_back, 2u) << "it went on taking what it does not want";
  EXPECT_TRUE(other->Ack(lease).ok());
}

TEST(RedisBusLeases, AClosedBusGivesBackWhatItHeldAtOnce) {
  RedisTestServer server;
  auto leaving = Connect(server);
  auto staying = Connect(server);
  for (RedisBus* bus : {leaving.get(), staying.get()}) {
    ASSERT_TRUE(bus->Open("t", {.lease = kHour}).ok());
  }
  ASSERT_TRUE(leaving->Publish("t", "x").ok());
  Take(*leaving, "t", 1);
  leaving.reset();
  EXPECT_EQ(Take(*staying, "t", 1).at(0).deliveries, 2u);
  EXPECT_EQ(CountKeys(server, "{test}:client:*"), 1u) << "the one that left is forgotten";
}

TEST(RedisBusLeases, AClosedBusTakesNothingWithIt) {
  RedisTestServer server;
  auto leaving = Connect(server);
  auto staying = Connect(server);
  for (RedisBus* bus : {leaving.get(), staying.get()}) {
    ASSERT_TRUE(bus->Open("t", {.lease = kHour}).ok());
  }
  EXPECT_TRUE(leaving->Receive("t", 5)->empty());
  // It waits for messages on the server now, and some arrive while it closes.
  EXPECT_TRUE(Eventually([&] {
    const std::string clients(ReplyText(*server.Do({"CLIENT", "LIST"})));
    return clients.find("cmd=xreadgroup") != std::string::npos;
  }));
  leaving->Close();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(staying->Publish("t", "x").ok());
  leaving.reset();
  for (const Lease& lease : Take(*staying, "t", 10)) EXPECT_EQ(lease.deliveries, 1u);
}

TEST(RedisBusTopics, ATopicAnotherClientRemovedIsForgotten) {
  RedisTestServer server;
  auto owner = Connect(server);
  ASSERT_TRUE(owner->Open("t", {}).ok());
  ASSERT_TRUE(owner->Flush(kPatience).ok());
  auto observer = Connect(server);
  ASSERT_TRUE(observer->Publish("t", "x").ok());
  ASSERT_TRUE(observer->Flush(kPatience).ok());
  ASSERT_TRUE(owner->Remove("t").ok());
  ASSERT_TRUE(owner->Flush(kPatience).ok());
  EXPECT_TRUE(Eventually([&] { return observer->Publish("t", "x").code() == Code::kNotFound; }));
  EXPECT_TRUE(observer->Flush(kPatience).ok());
  EXPECT_THAT(observer->Topics(), testing::ElementsAre("dead"));
}

TEST(RedisBusTopics, AnInboxAnotherClientOpenedCanBeAnswered) {
  RedisTestServer server;
  auto asker = Connect(server);
  auto worker = Connect(server);
  ASSERT_TRUE(asker->Open("work", {}).ok());
  ASSERT_TRUE(asker->Open("inbox", {.capacity = 1}).ok());
  ASSERT_TRUE(worker->Open("work", {}).ok());
  ASSERT_TRUE(asker->PublishRequest("work", "inbox", "question").ok());
  const Lease request = Take(*worker, "work", 1).at(0);
  ASSERT_TRUE(worker->PublishReply("inbox", "answer").ok());
  ASSERT_TRUE(worker->Ack(request).ok());
  EXPECT_EQ(Take(*asker, "inbox", 1).at(0).body, "answer");
}

TEST(RedisBusTopics, AnObserverSeesTheTopicsOfOthersAndTheirDepth) {
  RedisTestServer server;
  auto worker = Connect(server);
  ASSERT_TRUE(worker->Open("work", {}).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(worker->Publish("work", "x").ok());
  ASSERT_TRUE(worker->Flush(kPatience).ok());
  auto observer = Connect(server);
  EXPECT_THAT(observer->Topics(), testing::ElementsAre("dead", "work"));
  EXPECT_EQ(observer->Depth("work").status().code(), Code::kUnavailable);
  EXPECT_TRUE(Eventually([&] {
    auto depth = observer->Depth("work");
    return depth.ok() && depth->ready == 3;
  }));
}

TEST(RedisBusBodies, ALargeBodyTravelsInAKeyThatExpiresAndGoesWithItsMessage) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  std::string large(3 << 20, 'x');
  large[12345] = '\0';
  ASSERT_TRUE(bus->Publish("t", large).ok());
  const Lease lease = Take(*bus, "t", 1).at(0);
  EXPECT_EQ(lease.body, large);
  ReplyPtr keys = server.Do({"KEYS", "{test}:body:*"});
  ASSERT_EQ(keys->elements, 1u);
  EXPECT_GT(server.Do({"TTL", ReplyText(*keys->element[0])})->integer, 0);
  ASSERT_TRUE(bus->Ack(lease).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  EXPECT_EQ(CountKeys(server, "{test}:body:*"), 0u);
}

TEST(RedisBusBodies, AMessageWhoseBodyExpiredIsDead) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Publish("t", std::string(1 << 20, 'x')).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  ReplyPtr keys = server.Do({"KEYS", "{test}:body:*"});
  ASSERT_EQ(keys->elements, 1u);
  server.Do({"DEL", ReplyText(*keys->element[0])});
  EXPECT_TRUE(bus->Receive("t", 1)->empty());
  v1::DeadLetter letter;
  ASSERT_TRUE(letter.ParseFromString(Take(*bus, kDeadTopic, 1).at(0).body));
  EXPECT_EQ(letter.topic(), "t");
  EXPECT_THAT(letter.reason(), HasSubstr("body expired"));
}

class MapBlobs final : public BlobStore {
 public:
  Result<std::string> Put(std::string_view content) override {
    MutexLock lock(mutex_);
    if (failures_ > 0) {
      --failures_;
      return Unavailable("no space");
    }
    const std::string hash = Sha256Hex(content);
    blobs_[hash] = content;
    return hash;
  }
  Result<std::string> Get(std::string_view hash) override {
    MutexLock lock(mutex_);
    auto found = blobs_.find(hash);
    if (found == blobs_.end()) return NotFound("no blob");
    return found->second;
  }
  void FailNext(int count) {
    MutexLock lock(mutex_);
    failures_ = count;
  }
  size_t size() {
    MutexLock lock(mutex_);
    return blobs_.size();
  }

 private:
  Mutex mutex_;
  int failures_ TM_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string, std::less<>> blobs_ TM_GUARDED_BY(mutex_);
};

TEST(RedisBusBodies, ALargeBodyTravelsThroughABlobStoreAlsoOneThatFailsForAWhile) {
  RedisTestServer server;
  MapBlobs blobs;
  blobs.FailNext(2);
  auto with_blobs = [&](RedisBusOptions& options) {
    options.blobs = &blobs;
    options.inline_max = 100;
  };
  auto sender = Connect(server, with_blobs);
  auto receiver = Connect(server, with_blobs);
  for (RedisBus* bus : {sender.get(), receiver.get()}) ASSERT_TRUE(bus->Open("t", {}).ok());
  const std::string large(101, 'y'), small(100, 'z');
  ASSERT_TRUE(sender->Publish("t", large).ok());
  ASSERT_TRUE(sender->Publish("t", small).ok());
  auto leases = Take(*receiver, "t", 2);
  EXPECT_THAT(Bodies(leases), testing::UnorderedElementsAre(large, small));
  EXPECT_EQ(blobs.size(), 1u);
  EXPECT_EQ(CountKeys(server, "{test}:body:*"), 0u);
  for (const Lease& lease : leases) EXPECT_TRUE(receiver->Ack(lease).ok());
  ASSERT_TRUE(receiver->Flush(kPatience).ok());
  EXPECT_EQ(StreamLength(server, "t"), 0);
}

TEST(RedisBusBounds, AnOutboxThatCannotBeSentFillsUpAndSaysSo) {
  RedisTestServer server;
  auto bus = Connect(server, [](RedisBusOptions& options) {
    options.local.calls_max = 100;
    options.close_patience = milliseconds(10);
  });
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  server.Stop();
  int taken = 0;
  Status status = Ok();
  while (status.ok() && taken < 1000) {
    status = bus->Publish("t", "x");
    if (status.ok()) ++taken;
  }
  EXPECT_EQ(taken, 100);
  EXPECT_EQ(status.code(), Code::kFull);
}

TEST(RedisBusBounds, AServerWithoutMemoryTakesNothingMoreAndLosesNothing) {
  RedisTestServer server({"--maxmemory", "12mb", "--maxmemory-policy", "noeviction"});
  auto sender = Connect(server);
  ASSERT_TRUE(sender->Open("t", {}).ok());
  constexpr int kMessages = 120;
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(sender->Publish("t", std::to_string(i) + std::string(200'000, 'x')).ok());
  }
  EXPECT_TRUE(Eventually([&] { return StreamLength(server, "t") > 20; }));
  // A worker that comes only now can join, and makes the room the others need.
  std::unique_ptr<RedisBus> receiver;
  EXPECT_TRUE(Eventually([&] {
    RedisBusOptions options;
    options.url = server.url();
    options.run = "test";
    options.tick = milliseconds(20);
    auto bus = RedisBus::Connect(options);
    if (bus.ok()) receiver = std::move(*bus);
    return bus.ok();
  }));
  ASSERT_TRUE(receiver->Open("t", {}).ok());
  std::set<std::string> seen;
  EXPECT_TRUE(Eventually([&] {
    auto leases = receiver->Receive("t", 4);
    for (const Lease& lease : *leases) {
      seen.insert(lease.body);
      EXPECT_TRUE(receiver->Ack(lease).ok());
    }
    return seen.size() == kMessages;
  })) << seen.size();
}

TEST(RedisBusConnect, RefusesAServerThatEvictsAndNamesTheSetting) {
  RedisTestServer server({"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"});
  RedisBusOptions options;
  options.url = server.url();
  auto bus = RedisBus::Connect(options);
  ASSERT_FALSE(bus.ok());
  EXPECT_EQ(bus.status().code(), Code::kInvalid);
  EXPECT_THAT(bus.status().message(), HasSubstr("maxmemory-policy noeviction"));
  EXPECT_THAT(bus.status().message(), HasSubstr("allkeys-lru"));
}

TEST(RedisBusConnect, SaysThatNobodyAnswers) {
  std::string url;
  {
    RedisTestServer server;
    url = server.url();
  }
  RedisBusOptions options;
  options.url = url;
  auto bus = RedisBus::Connect(options);
  ASSERT_FALSE(bus.ok());
  EXPECT_EQ(bus.status().code(), Code::kUnavailable);
  EXPECT_THAT(bus.status().message(), HasSubstr("127.0.0.1"));
}

// The rule of docs/bus.md is enough for everything the bus does.
TEST(RedisBusConnect, WorksAsAUserWithTheRightsTheDocumentNames) {
  RedisTestServer server;
  server.Do({"ACL", "SETUSER", "mill", "on", ">s@cret", "~{test}:*", "resetchannels", "-@all",
             "+@read", "+@write", "+@scripting", "+@connection", "+info", "+time"});
  auto bus = Connect(server, [&](RedisBusOptions& options) {
    options.url = "redis://mill:s%40cret@127.0.0.1:" + std::to_string(server.port()) + "/0";
  });
  ASSERT_NE(bus, nullptr);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  EXPECT_TRUE(bus->Receive("t", 2)->empty());
  ASSERT_TRUE(bus->Publish("t", "small").ok());
  ASSERT_TRUE(bus->Publish("t", std::string(1 << 20, 'l')).ok());
  auto leases = Take(*bus, "t", 2);
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_TRUE(bus->Extend(leases[0]).ok());
  EXPECT_TRUE(bus->Ack(leases[0]).ok());
  EXPECT_TRUE(bus->Release(leases[1], milliseconds(1)).ok());
  EXPECT_TRUE(bus->Ack(Take(*bus, "t", 1).at(0)).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  EXPECT_EQ(bus->Stats().lost, 0u);
  EXPECT_EQ(StreamLength(server, "t"), 0);
}

TEST(RedisBusConnect, RefusesAWrongPasswordWithoutTryingAgain) {
  RedisTestServer server({"--requirepass", "right"});
  for (const char* who : {":wrong@", ""}) {
    RedisBusOptions options;
    options.url = std::string("redis://") + who + "127.0.0.1:" + std::to_string(server.port());
    auto bus = RedisBus::Connect(options);
    ASSERT_FALSE(bus.ok());
    EXPECT_EQ(bus.status().code(), Code::kInvalid) << bus.status().ToString();
    EXPECT_THAT(bus.status().message(), testing::Not(HasSubstr("wrong@")));
  }
}

TEST(RedisBusConnect, RefusesARunNameThatWouldSpoilItsKeys) {
  for (const char* run : {"", "a b", "a{b}", "a*"}) {
    RedisBusOptions options;
    options.url = "redis://127.0.0.1:1";
    options.run = run;
    auto bus = RedisBus::Connect(options);
    ASSERT_FALSE(bus.ok());
    EXPECT_EQ(bus.status().code(), Code::kInvalid);
  }
}

TEST(RedisRun, IsRemovedWithAllItsKeysAndNoOthers) {
  RedisTestServer server;
  {
    auto bus = Connect(server);
    ASSERT_TRUE(bus->Open("t", {}).ok());
    ASSERT_TRUE(bus->Publish("t", "x").ok());
  }
  server.Do({"SET", "{other}:topics", "kept"});
  ASSERT_GT(CountKeys(server, "{test}:*"), 0u);
  ASSERT_TRUE(RemoveRedisRun(server.url(), "test").ok());
  EXPECT_EQ(CountKeys(server, "*"), 1u);
}

TEST(RedisInfo, SaysWhatIsWrongWithAServer) {
  EXPECT_TRUE(CheckRedisInfo("redis_version:7.0.15\r\nmaxmemory:0\r\n").ok());
  EXPECT_TRUE(CheckRedisInfo("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\nmaxmemory:1000\r\n"
                             "maxmemory_policy:noeviction\r\n")
                  .ok());
  EXPECT_TRUE(
      CheckRedisInfo("redis_version:7.0.0\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n")
          .ok());
  EXPECT_THAT(CheckRedisInfo("redis_version:6.2.1\r\n").message(), HasSubstr("7.0 or later"));
  EXPECT_THAT(CheckRedisInfo("").message(), HasSubstr("7.0 or later"));
  EXPECT_THAT(
      CheckRedisInfo("redis_version:7.0.0\nmaxmemory:1\nmaxmemory_policy:volatile-ttl\n").message(),
      HasSubstr("noeviction"));
}

}  // namespace
}  // namespace tidemill
