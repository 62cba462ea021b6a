// The roster of workers and the inspector, on a server of the test's own.
#include "bus/redis/redis_inspector.h"

#include <gmock/gmock.h>

#include "bus/redis/redis_roster.h"
#include "testing/redis_test_kit.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

v1::Heartbeat BeatOf(const std::string& worker, const std::string& role = "tools") {
  v1::Heartbeat beat;
  beat.set_worker(worker);
  beat.set_role(role);
  beat.set_messages(1);
  beat.set_doing("2 calls");
  return beat;
}

RedisInspector Inspect(const RedisTestServer& server) {
  auto inspector = RedisInspector::Connect(server.url());
  EXPECT_TRUE(inspector.ok()) << inspector.status().ToString();
  return std::move(*inspector);
}

class Inspector : public testing::Test {
 protected:
  const TopicState Topic(const std::string& name) {
    const auto topics = inspector_.Topics("test");
    EXPECT_TRUE(topics.ok()) << topics.status().ToString();
    for (const TopicState& topic : *topics) {
      if (topic.name == name) return topic;
    }
    ADD_FAILURE() << "no topic " << name;
    return {};
  }
  std::vector<DeadLetterEntry> Letters(const std::string& topic = "", size_t limit = 100) {
    auto letters = inspector_.DeadLetters("test", {.topic = topic, .limit = limit});
    EXPECT_TRUE(letters.ok()) << letters.status().ToString();
    return std::move(*letters);
  }
  // A message of `topic` that was rejected.
  void Bury(const std::string& topic, const std::string& body, const std::string& reason) {
    ASSERT_TRUE(bus_->Publish(topic, body).ok());
    const std::vector<Lease> taken = Take(*bus_, topic, 1);
    ASSERT_EQ(taken.size(), 1u);
    ASSERT_TRUE(bus_->Reject(taken[0], reason).ok());
    ASSERT_TRUE(bus_->Flush(kPatience).ok());
  }

  RedisTestServer server_;
  std::unique_ptr<RedisBus> bus_ = Connect(server_);
  RedisInspector inspector_ = Inspect(server_);
};

TEST(Roster, AWorkerIsThereUntilItLeaves) {
  RedisTestServer server;
  auto roster = RedisRoster::Connect(server.url(), "test");
  ASSERT_TRUE(roster.ok());
  ASSERT_TRUE(roster->Beat(BeatOf("tools-b")).ok());
  ASSERT_TRUE(roster->Beat(BeatOf("reward-a", "reward")).ok());
  ASSERT_TRUE(roster->Beat(BeatOf("tools-a")).ok());
  auto workers = roster->Workers();
  ASSERT_TRUE(workers.ok());
  ASSERT_EQ(workers->size(), 3u);
  EXPECT_EQ((*workers)[0].beat.worker(), "reward-a");
  EXPECT_EQ((*workers)[1].beat.worker(), "tools-a");
  EXPECT_EQ((*workers)[1].beat.doing(), "2 calls");
  EXPECT_FALSE((*workers)[1].lost());
  ASSERT_TRUE(roster->Leave("tools-a").ok());
  workers = roster->Workers();
  ASSERT_TRUE(workers.ok());
  EXPECT_EQ(workers->size(), 2u);
  EXPECT_EQ(CountKeys(server, "{test}:worker:*"), 2u);
}

TEST(Roster, AWorkerThatIsSilentIsLostAndThenForgotten) {
  RedisTestServer server;
  auto roster = RedisRoster::Connect(server.url(), "test");
  ASSERT_TRUE(roster.ok());
  ASSERT_TRUE(roster->Beat(BeatOf("tools-a")).ok());
  const RedisKeys keys("test");
  // What 11 seconds of silence leave.
  const double score =
      std::stod(std::string(ReplyText(*server.Do({"ZSCORE", keys.Workers(), "tools-a"}))));
  server.Do({"ZADD", keys.Workers(), std::to_string(score - 11'000), "tools-a"});
  auto workers = roster->Workers();
  ASSERT_TRUE(workers.ok());
  ASSERT_EQ(workers->size(), 1u);
  EXPECT_TRUE((*workers)[0].lost());
  EXPECT_EQ((*workers)[0].beat.role(), "tools");
  // And an hour: the next beat of anyone clears it away.
  EXPECT_GT(server.Do({"PTTL", keys.Worker("tools-a")})->integer, 3'500'000);
  server.Do({"ZADD", keys.Workers(), std::to_string(score - 3'601'000), "tools-a"});
  ASSERT_TRUE(roster->Beat(BeatOf("tools-b")).ok());
  workers = roster->Workers();
  ASSERT_TRUE(workers.ok());
  ASSERT_EQ(workers->size(), 1u);
  EXPECT_EQ((*workers)[0].beat.worker(), "tools-b");
}

TEST(Roster, AWorkerWithOtherMessagesIsRefusedWhileOneOfTheRunIsThere) {
  RosterEntry other;
  other.beat = BeatOf("tools-old");
  v1::Heartbeat newcomer = BeatOf("tools-new");
  EXPECT_TRUE(CheckSameMessages({other}, newcomer).ok());
  newcomer.set_messages(2);
  const Status refused = CheckSameMessages({other}, newcomer);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_THAT(refused.message(), HasSubstr("tools-old"));
  other.age = std::chrono::minutes(1);
  EXPECT_TRUE(CheckSameMessages({other}, newcomer).ok()) << "it is lost";
}

TEST(Roster, WhatWorkersCountedIsAddedUpAndStaysWhenTheyAreGone) {
  RedisTestServer server;
  auto roster = RedisRoster::Connect(server.url(), "test");
  v1::Heartbeat first = BeatOf("tools-1"), second = BeatOf("tools-2");
  ASSERT_TRUE(roster->Beat(first, {{"calls", 3}, {"seconds", 0.25}}).ok());
  ASSERT_TRUE(roster->Beat(first, {{"calls", 3}, {"seconds", 0.25}}).ok());  // told twice
  ASSERT_TRUE(roster->Beat(first, {{"calls", 5}, {"seconds", 0.5}}).ok());
  ASSERT_TRUE(roster->Beat(second, {{"calls", 10}}).ok());
  ASSERT_TRUE(roster->Leave("tools-1").ok());
  first.set_started_ms(7);  // another process of the same name: it counts from nothing
  ASSERT_TRUE(roster->Beat(first, {{"calls", 1}}).ok());
  EXPECT_EQ(*roster->Totals(), (RosterTotals{{"tools/calls", 16}, {"tools/seconds", 0.5}}));
}

TEST(Roster, ComesBackAfterTheServerDid) {
  RedisTestServer server;
  auto roster = RedisRoster::Connect(server.url(), "test");
  ASSERT_TRUE(roster.ok());
  ASSERT_TRUE(roster->Beat(BeatOf("tools-a")).ok());
  server.Stop(SIGKILL);
  EXPECT_EQ(roster->Beat(BeatOf("tools-a")).code(), Code::kUnavailable);
  server.Start();
  EXPECT_TRUE(roster->Beat(BeatOf("tools-a")).ok());
}

TEST_F(Inspector, NamesTheRunsThereAre) {
  const auto other = Connect(server_, [](RedisBusOptions& options) { options.run = "another"; });
  const auto runs = inspector_.Runs();
  ASSERT_TRUE(runs.ok());
  EXPECT_THAT(*runs, ElementsAre("another", "test"));
  EXPECT_TRUE(inspector_.CheckRun("test").ok());
  const Status missing = inspector_.CheckRun("tset");
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("no run \"tset\"; its runs are: another, test"));
  EXPECT_EQ(inspector_.CheckRun("a b").code(), Code::kInvalid);
}

TEST_F(Inspector, TellsHowDeepATopicIsAndHowLongItsOldestMessageWaits) {
  ASSERT_TRUE(bus_->Open("work", {.capacity = 50, .lease = kHour}).ok());
  for (const char* body : {"a", "b", "c", "d"}) ASSERT_TRUE(bus_->Publish("work", body).ok());
  const std::vector<Lease> taken = Take(*bus_, "work", 2);
  ASSERT_TRUE(bus_->Release(taken[0], kHour).ok());
  ASSERT_TRUE(bus_->Flush(kPatience).ok());
  ASSERT_TRUE(Eventually([&] { return Topic("work").oldest_ready >= milliseconds(5); }));
  const TopicState topic = Topic("work");
  EXPECT_EQ(topic.ready, 2u);
  EXPECT_EQ(topic.leased, 1u);
  EXPECT_EQ(topic.delayed, 1u);
  EXPECT_EQ(topic.options.capacity, 50u);
  EXPECT_GE(topic.oldest_leased, topic.oldest_ready);
  EXPECT_LT(topic.oldest_leased, std::chrono::minutes(1));
}

TEST_F(Inspector, AMessageThatIsDeliveredAgainKeepsItsAge) {
  ASSERT_TRUE(bus_->Open("work", {.lease = kHour}).ok());
  ASSERT_TRUE(bus_->Publish("work", "a").ok());
  std::vector<Lease> taken = Take(*bus_, "work", 1);
  ASSERT_TRUE(Eventually([&] { return Topic("work").oldest_leased >= milliseconds(50); }));
  ASSERT_TRUE(bus_->Release(taken[0], Duration(0)).ok());
  ASSERT_TRUE(bus_->Flush(kPatience).ok());
  EXPECT_GE(Topic("work").oldest_ready, milliseconds(50));
}

TEST_F(Inspector, VisitsWhatWaitsIsHeldAndIsDelayed) {
  ASSERT_TRUE(bus_->Open("jobs", {}).ok());
  const std::string large(1 << 20, 'x');
  for (const std::string& body : {std::string("held"), std::string("later"), large}) {
    ASSERT_TRUE(bus_->Publish("jobs", body).ok());
  }
  const std::vector<Lease> taken = Take(*bus_, "jobs", 2);
  ASSERT_EQ(taken.size(), 2u);
  ASSERT_TRUE(bus_->Release(taken[1], std::chrono::hours(1)).ok());
  ASSERT_TRUE(bus_->Flush(kPatience).ok());
  std::set<std::string> bodies;
  const Status visited = inspector_.ForEachMessage(
      "test", "jobs", [&](std::string_view body) { bodies.emplace(body); });
  ASSERT_TRUE(visited.ok()) << visited.ToString();
  EXPECT_EQ(bodies, (std::set<std::string>{"held", "later", large}));
  EXPECT_EQ(Topic("jobs").leased + Topic("jobs").ready + Topic("jobs").delayed, 3u);
}

TEST_F(Inspector, ListsAndShowsDeadLetters) {
  ASSERT_TRUE(bus_->Open("work", {.lease = kHour}).ok());
  ASSERT_TRUE(bus_->Open("play", {.lease = kHour}).ok());
  EXPECT_THAT(Letters(), IsEmpty());
  Bury("work", "first", "not a ToolRequest");
  Bury("play", "second", "too loud");
  const auto letters = Letters();
  ASSERT_EQ(letters.size(), 2u);
  EXPECT_EQ(letters[0].topic, "work");
  EXPECT_EQ(letters[0].reason, "not a ToolRequest");
  EXPECT_EQ(letters[0].deliveries, 1u);
  EXPECT_GT(letters[0].died_ms, 1'600'000'000'000);
  EXPECT_EQ(Letters("play").size(), 1u);
  EXPECT_EQ(Letters("", 1).size(), 1u);
  const auto shown = inspector_.DeadLetter("test", letters[1].id);
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->body, "second");
  EXPECT_EQ(inspector_.DeadLetter("test", "12-0").status().code(), Code::kNotFound);
  EXPECT_EQ(inspector_.DeadLetter("test", "first").status().code(), Code::kInvalid);
  EXPECT_EQ(Topic("work").died, 1u);
}

TEST_F(Inspector, ARetriedLetterIsDeliveredLikeANewMessage) {
  ASSERT_TRUE(bus_->Open("work", {.lease = kHour}).ok());
  Bury("work", "again", "bad luck");
  ASSERT_TRUE(inspector_.Retry("test", Letters()[0].id).ok());
  EXPECT_THAT(Letters(), IsEmpty());
  const std::vector<Lease> taken = Take(*bus_, "work", 1);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].body, "again");
  EXPECT_EQ(taken[0].deliveries, 1u);
  EXPECT_TRUE(bus_->Ack(taken[0]).ok());
}

TEST_F(Inspector, ALargeBodyIsShownRetriedAndDroppedToo) {
  ASSERT_TRUE(bus_->Open("work", {.lease = kHour}).ok());
  const std::string large(600'000, 'x');
  Bury("work", large, "too large");
  Bury("work", large, "too large");
  const auto letters = Letters();
  ASSERT_EQ(letters.size(), 2u);
  const auto shown = inspector_.DeadLetter("test", letters[0].id);
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->body, large);
  EXPECT_EQ(CountKeys(server_, "{test}:body:*"), 2u);
  ASSERT_TRUE(inspector_.Drop("test", letters[1].id).ok());
  EXPECT_EQ(CountKeys(server_, "{test}:body:*"), 1u);
  ASSERT_TRUE(inspector_.Retry("test", letters[0].id).ok());
  EXPECT_EQ(Take(*bus_, "work", 1).at(0).body, large);
}

TEST_F(Inspector, ALetterThatCannotBeRetriedSaysWhyAndStays) {
  ASSERT_TRUE(bus_->Open("work", {.capacity = 1, .lease = kHour}).ok());
  Bury("work", "a", "bad luck");
  ASSERT_TRUE(bus_->Publish("work", "b").ok());
  ASSERT_TRUE(bus_->Flush(kPatience).ok());
  const std::string id = Letters()[0].id;
  EXPECT_EQ(inspector_.Retry("test", id).code(), Code::kFull);
  ASSERT_TRUE(bus_->Remove("work").ok());
  ASSERT_TRUE(bus_->Flush(kPatience).ok());
  const Status gone = inspector_.Retry("test", id);
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_THAT(gone.message(), HasSubstr("topic work no longer exists"));
  EXPECT_EQ(Letters().size(), 1u);
  EXPECT_TRUE(inspector_.Drop("test", id).ok());
  EXPECT_EQ(inspector_.Drop("test", id).code(), Code::kNotFound);
}

}  // namespace
}  // namespace tidemill
