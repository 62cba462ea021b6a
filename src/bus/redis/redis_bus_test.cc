// What is RedisBus's own beyond the contract: servers that restart, forget, refuse or run full.
#include "bus/redis/redis_bus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "bus/bus_test_kit.h"
#include "bus/redis/redis_session.h"
#include "bus/redis/redis_test_server.h"
#include "core/hash.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kHour = std::chrono::hours(1);

bool Eventually(const std::function<bool()>& holds) {
  CountingWaker nobody;
  const Time until = std::chrono::steady_clock::now() + kPatience;
  do {
    if (holds()) return true;
    nobody.WaitPast(0, milliseconds(2));
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

std::vector<Lease> Take(Bus& bus, std::string_view topic, size_t count) {
  std::vector<Lease> taken;
  EXPECT_TRUE(Eventually([&] {
    auto some = bus.Receive(topic, count - taken.size());
    EXPECT_TRUE(some.ok()) << some.status().ToString();
    for (Lease& lease : *some) taken.push_back(std::move(lease));
    return taken.size() >= count;
  })) << "only "
      << taken.size() << " of " << count << " came on " << topic;
  return taken;
}

std::unique_ptr<RedisBus> Connect(const RedisTestServer& server,
                                  const std::function<void(RedisBusOptions&)>& change = {}) {
  RedisBusOptions options;
  options.url = server.url();
  options.run = "test";
  options.tick = milliseconds(20);
  options.reconnect_min = milliseconds(5);
  options.reconnect_max = milliseconds(50);
  if (change) change(options);
  auto bus = RedisBus::Connect(options);
  EXPECT_TRUE(bus.ok()) << bus.status().ToString();
  return bus.ok() ? std::move(*bus) : nullptr;
}

int64_t StreamLength(RedisTestServer& server, std::string_view topic) {
  return server.Do({"XLEN", RedisKeys("test").Stream(topic)})->integer;
}

size_t CountKeys(RedisTestServer& server, std::string_view pattern) {
  return server.Do({"KEYS", pattern})->elements;
}

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

TEST(RedisBusRestart, ScriptsThatWereForgottenAreLoadedAgain) {
  RedisTestServer server;
  auto bus = Connect(server);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Flush(kPatience).ok());
  server.Do({"SCRIPT", "FLUSH"});
  ASSERT_TRUE(bus->Publish("t", "x").ok());
  EXPECT_EQ(Take(*bus, "t", 1).size(), 1u);
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
  EXPECT_TRUE(Eventually([&] { return slow->Stats().given_back == 1; }));
  auto other = Connect(server);
  ASSERT_TRUE(other->Open("t", {}).ok());
  const Lease lease = Take(*other, "t", 1).at(0);
  EXPECT_EQ(lease.deliveries, 1u);
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
    std::lock_guard lock(mutex_);
    if (failures_ > 0) {
      --failures_;
      return Unavailable("no space");
    }
    const std::string hash = Sha256Hex(content);
    blobs_[hash] = content;
    return hash;
  }
  Result<std::string> Get(std::string_view hash) override {
    std::lock_guard lock(mutex_);
    auto found = blobs_.find(hash);
    if (found == blobs_.end()) return NotFound("no blob");
    return found->second;
  }
  void FailNext(int count) {
    std::lock_guard lock(mutex_);
    failures_ = count;
  }
  size_t size() {
    std::lock_guard lock(mutex_);
    return blobs_.size();
  }

 private:
  std::mutex mutex_;
  int failures_ = 0;
  std::map<std::string, std::string, std::less<>> blobs_;
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
