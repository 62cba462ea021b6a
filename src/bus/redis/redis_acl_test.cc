// Each role with its own user on a server of the test's own: what it needs works, the rest is
// refused.
#include "bus/redis/redis_acl.h"

#include <gmock/gmock.h>
#include <hiredis/hiredis.h>

#include "bus/redis/redis_client.h"
#include "bus/redis/redis_roster.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "testing/bus_test_kit.h"
#include "testing/redis_test_kit.h"

namespace tidemill {
namespace {

class RedisAclTest : public testing::Test {
 protected:
  RedisAclTest() {
    users_ = RedisUsersOf("test").value();
    EXPECT_TRUE(WriteRedisUsers(users_, directory_.path()).ok());
    server_ = std::make_unique<RedisTestServer>(
        std::vector<std::string>{"--aclfile", directory_ / "users.acl"});
  }
  std::string UrlOf(const std::string& role) const {
    for (const RedisUser& user : users_) {
      if (user.name != role) continue;
      return "redis://" + role + ":" + user.password +
             "@127.0.0.1:" + std::to_string(server_->port()) + "/0";
    }
    return "";
  }
  std::unique_ptr<RedisBus> BusOf(const std::string& role) {
    return Connect(*server_, [&](RedisBusOptions& options) {
      options.url = UrlOf(role);
      options.client = role + "-host-1";
    });
  }
  Status Try(const std::string& role, std::initializer_list<std::string_view> command) {
    return RedisClient::Connect(UrlOf(role)).value().Do(command).status();
  }

  TemporaryDirectory directory_;
  std::vector<RedisUser> users_;
  std::unique_ptr<RedisTestServer> server_;
};

TEST_F(RedisAclTest, EveryRoleCanDoItsPartAndCarryAMessageAllTheWay) {
  const auto learner = BusOf("learner"), rollout = BusOf("rollout"), tools = BusOf("tools"),
             reward = BusOf("reward");
  ASSERT_TRUE(OpenStandardTopics(*learner, {}).ok());
  ASSERT_TRUE(OpenStandardTopics(*rollout, {}, "rollout").ok());
  ASSERT_TRUE(OpenStandardTopics(*tools, {}, "tools").ok());
  ASSERT_TRUE(OpenStandardTopics(*reward, {}, "reward").ok());
  const std::string inbox = InboxTopic("rollout-host-1", "rollout"),
                    scores = InboxTopic("reward-host-1", "reward"),
                    verdicts = InboxTopic("learner.1", "replay"),
                    cancels = ToolCancelTopic("tools-host-1");
  ASSERT_TRUE(rollout->Open(inbox, {}).ok());
  ASSERT_TRUE(reward->Open(scores, {}).ok());
  ASSERT_TRUE(learner->Open(verdicts, {}).ok());
  ASSERT_TRUE(tools->Open(cancels, {}).ok());
  ASSERT_TRUE(tools->Flush(std::chrono::seconds(10)).ok());  // only its worker lists it
  ASSERT_TRUE(rollout->Open(cancels, {}).ok());
  const auto carry = [&](RedisBus& from, RedisBus& to, std::string_view topic,
                         std::string_view reply) {
    SCOPED_TRACE(topic);
    const Status sent =
        reply.empty() ? from.Publish(topic, "x") : from.PublishRequest(topic, reply, "x");
    ASSERT_TRUE(sent.ok()) << sent.ToString();
    const std::vector<Lease> leases = Take(to, topic, 1);
    ASSERT_EQ(leases.size(), 1u);
    EXPECT_TRUE(to.Extend(leases[0]).ok());
    if (!reply.empty()) {
      EXPECT_TRUE(to.PublishReply(reply, "y").ok());
      EXPECT_EQ(Take(from, reply, 1).size(), 1u);
    }
    EXPECT_TRUE(to.Ack(leases[0]).ok());
  };
  carry(*learner, *rollout, kGroupsTopic, "");
  carry(*rollout, *learner, kTrajectoriesTopic, "");
  carry(*rollout, *learner, kGivenUpTopic, "");
  for (std::string_view topic : {kToolsCompileTopic, kToolsTestsTopic, kToolsLintTopic,
                                 kToolsFilesTopic, kToolsCommandTopic}) {
    carry(*rollout, *tools, topic, inbox);
  }
  carry(*reward, *tools, kToolsGradeTopic, scores);
  carry(*learner, *reward, kScoreTopic, verdicts);
  carry(*rollout, *tools, cancels, "");
  // A message that is refused goes to the dead letters whoever refuses it.
  for (RedisBus* bus : {rollout.get(), tools.get(), reward.get(), learner.get()}) {
    EXPECT_TRUE(bus->Flush(std::chrono::seconds(10)).ok());
    EXPECT_EQ(bus->Stats().reconnects, 0u);
  }
  ASSERT_TRUE(rollout->Publish(kToolsCompileTopic, "bad").ok());
  EXPECT_TRUE(tools->Reject(Take(*tools, kToolsCompileTopic, 1).at(0), "no").ok());
  EXPECT_TRUE(tools->Flush(std::chrono::seconds(10)).ok());
  EXPECT_EQ(Take(*learner, kDeadTopic, 1).size(), 1u);
}

TEST_F(RedisAclTest, ALargeMessageGoesFromRoleToRole) {
  const auto learner = BusOf("learner"), rollout = BusOf("rollout"), tools = BusOf("tools");
  ASSERT_TRUE(OpenStandardTopics(*learner, {}).ok());
  ASSERT_TRUE(learner->Flush(std::chrono::seconds(10)).ok());
  ASSERT_TRUE(OpenStandardTopics(*rollout, {}, "rollout").ok());
  ASSERT_TRUE(OpenStandardTopics(*tools, {}, "tools").ok());
  const std::string large(1 << 20, 'x');
  const auto carry = [&](RedisBus& from, RedisBus& to, std::string_view topic) {
    SCOPED_TRACE(topic);
    ASSERT_TRUE(from.Publish(topic, large).ok());
    const std::vector<Lease> leases = Take(to, topic, 1);
    ASSERT_EQ(leases.size(), 1u);
    EXPECT_EQ(leases[0].body, large);
    EXPECT_TRUE(to.Ack(leases[0]).ok());
    EXPECT_TRUE(to.Flush(std::chrono::seconds(10)).ok());
  };
  carry(*learner, *rollout, kGroupsTopic);
  carry(*rollout, *tools, kToolsCompileTopic);
  carry(*rollout, *learner, kTrajectoriesTopic);
  auto left = RedisClient::Connect(UrlOf("learner"))
                  .value()
                  .Do({"SCAN", "0", "MATCH", "{test}:body:*", "COUNT", "1000"});
  ASSERT_TRUE(left.ok()) << left.status().ToString();
  EXPECT_EQ((*left)->element[1]->elements, 0u);
}

TEST_F(RedisAclTest, OnlyTheLearnerWritesTheSheetAndNobodyReachesBeyondItsRole) {
  ASSERT_TRUE(Try("learner", {"SET", "{test}:sheet", "s"}).ok());
  for (const char* role : {"rollout", "tools", "reward"}) {
    SCOPED_TRACE(role);
    EXPECT_TRUE(Try(role, {"GET", "{test}:sheet"}).ok());
    EXPECT_EQ(Try(role, {"SET", "{test}:sheet", "forged"}).code(), Code::kInvalid);
    EXPECT_EQ(Try(role, {"DEL", "{test}:sheet"}).code(), Code::kInvalid);
    EXPECT_EQ(Try(role, {"GET", "{other}:sheet"}).code(), Code::kInvalid);
    EXPECT_EQ(Try(role, {"FLUSHALL"}).code(), Code::kInvalid);
    EXPECT_EQ(Try(role, {"CONFIG", "GET", "*"}).code(), Code::kInvalid);
    EXPECT_EQ(Try(role, {"KEYS", "*"}).code(), Code::kInvalid);
  }
  EXPECT_EQ(Try("tools", {"XADD", "{test}:t:replay.trajectories:stream", "*", "b", "x"}).code(),
            Code::kInvalid);
  EXPECT_EQ(
      Try("rollout", {"XADD", "{test}:t:inbox.learner.1.replay:stream", "*", "b", "x"}).code(),
      Code::kInvalid);
  EXPECT_EQ(Try("rollout", {"XRANGE", "{test}:t:tools.grade:stream", "-", "+"}).code(),
            Code::kInvalid)
      << "hidden tests are there";
  EXPECT_EQ(Try("reward", {"XADD", "{test}:t:rollout.groups:stream", "*", "b", "x"}).code(),
            Code::kInvalid);
  EXPECT_TRUE(Try("watch", {"GET", "{test}:sheet"}).ok());
  EXPECT_EQ(Try("watch", {"SET", "{test}:sheet", "forged"}).code(), Code::kInvalid);
}

// What a worker's password may reach of a run that goes on beside it.
TEST_F(RedisAclTest, AWorkersPasswordTakesNoTopicAwayAndRunsNoScript) {
  const auto learner = BusOf("learner"), rollout = BusOf("rollout"), tools = BusOf("tools");
  ASSERT_TRUE(OpenStandardTopics(*learner, {}).ok());
  ASSERT_TRUE(learner->Flush(std::chrono::seconds(10)).ok());
  ASSERT_TRUE(OpenStandardTopics(*rollout, {}, "rollout").ok());
  ASSERT_TRUE(OpenStandardTopics(*tools, {}, "tools").ok());
  ASSERT_TRUE(rollout->Flush(std::chrono::seconds(10)).ok());
  ASSERT_TRUE(tools->Flush(std::chrono::seconds(10)).ok());
  ASSERT_TRUE(rollout->Publish(kToolsCompileTopic, "kept").ok());
  ASSERT_TRUE(rollout->Flush(std::chrono::seconds(10)).ok());
  const std::string stream = "{test}:t:tools.compile:stream";
  const std::vector<std::vector<std::string_view>> attacks = {
      {"HDEL", "{test}:topics", "tools.compile"},
      {"HSET", "{test}:topics", "tools.compile", "1 1 1"},
      {"DEL", "{test}:topics"},
      {"UNLINK", "{test}:topics"},
      {"SET", "{test}:epoch", "0"},
      {"DEL", "{test}:epoch"},
      {"DEL", stream},
      {"UNLINK", stream},
      {"SET", stream, "x"},
      {"XGROUP", "DESTROY", stream, "g"},
      {"XTRIM", stream, "MAXLEN", "0"},
      {"SET", "{test}:t:tools.compile:state", "x"},
      {"SET", "{test}:t:tools.compile:delayed", "x"},
      {"HSET", "{test}:topics:rollout", "inbox.rollout-x.y", "no options"},
      {"UNLINK", "{test}:client:learner-host-1"},
      {"SET", "{test}:body:rollout-host-1-0:1", "another trajectory"},
      {"SET", "{test}:body:learner-host-1-0:1", "other hidden tests"},
      {"EVAL", "while true do end", "0"},
      {"EVAL", "return redis.call('DEL', KEYS[1])", "1", "{test}:topics"},
      {"SCRIPT", "LOAD", "return 1"},
      {"SCRIPT", "FLUSH"},
      {"FUNCTION", "LOAD", "#!lua name=x\nredis.register_function('x', function() end)"},
      {"FUNCTION", "FLUSH"},
      {"FUNCTION", "KILL"},
      {"FLUSHDB"},
      {"SWAPDB", "0", "1"},
      {"SHUTDOWN"}};
  for (const std::vector<std::string_view>& attack : attacks) {
    std::string text;
    for (const std::string_view word : attack) text += std::string(word) + " ";
    SCOPED_TRACE(text);
    EXPECT_EQ(RedisClient::Connect(UrlOf("tools")).value().Do(attack).status().code(),
              Code::kInvalid);
  }
  EXPECT_EQ(Bodies(Take(*tools, kToolsCompileTopic, 1)), std::vector<std::string>{"kept"});
}

// It may write to the parts of a topic that it uses, whatever it likes; the topic goes on.
TEST_F(RedisAclTest, WhatAWorkerWritesIntoItsTopicsDoesNotStopThem) {
  const auto learner = BusOf("learner"), rollout = BusOf("rollout"), tools = BusOf("tools");
  ASSERT_TRUE(OpenStandardTopics(*learner, {}).ok());
  ASSERT_TRUE(learner->Flush(std::chrono::seconds(10)).ok());
  const std::string inbox = InboxTopic("rollout-host-1", "rollout");
  ASSERT_TRUE(OpenStandardTopics(*rollout, {}, "rollout").ok());
  ASSERT_TRUE(rollout->Open(inbox, {}).ok());
  ASSERT_TRUE(OpenStandardTopics(*tools, {}, "tools").ok());
  ASSERT_TRUE(rollout->Flush(std::chrono::seconds(10)).ok());
  ASSERT_TRUE(Try("learner", {"SET", "{test}:sheet", "s"}).ok());
  const std::string base = "{test}:t:tools.compile:";
  EXPECT_TRUE(Try("tools", {"ZADD", base + "delayed", "1", "not a message"}).ok());
  EXPECT_TRUE(Try("tools", {"ZADD", base + "delayed", "1", "\x91\x01"}).ok());
  EXPECT_TRUE(
      Try("tools", {"HSET", base + "state", "owed", "many", "dead", "x", "made", "y"}).ok());
  EXPECT_TRUE(Try("tools", {"HSET", "{test}:t:" + inbox + ":state", "owed", "1e300"}).ok());
  EXPECT_TRUE(
      Try("tools", {"XADD", base + "stream", "*", "n", "x", "i", "y", "k", "{test}:sheet"}).ok());
  EXPECT_TRUE(
      Try("tools", {"XADD", base + "stream", "18446744073709551615-18446744073709551615", "b", "x"})
          .ok());
  // The learner, which looks after every topic, begins the stream anew.
  EXPECT_TRUE(Eventually([&] { return learner->Losses() > 0; }));
  ASSERT_TRUE(rollout->PublishRequest(kToolsCompileTopic, inbox, "work").ok());
  std::vector<Lease> taken;
  EXPECT_TRUE(Eventually([&] {
    for (Lease& lease : tools->Receive(kToolsCompileTopic, 10).value()) {
      if (lease.body == "work") taken.push_back(lease);
    }
    return !taken.empty();
  }));
  EXPECT_TRUE(tools->PublishReply(inbox, "done").ok());
  EXPECT_EQ(Bodies(Take(*rollout, inbox, 1)), std::vector<std::string>{"done"});
  EXPECT_TRUE(Try("learner", {"GET", "{test}:sheet"}).ok());
}

TEST_F(RedisAclTest, TheKeyOfABodyCannotNameAnotherKey) {
  const auto learner = BusOf("learner");
  ASSERT_TRUE(OpenStandardTopics(*learner, {}).ok());
  ASSERT_TRUE(learner->Flush(std::chrono::seconds(10)).ok());
  ASSERT_TRUE(Try("learner", {"SET", "{test}:sheet", "s"}).ok());
  ASSERT_TRUE(
      Try("rollout", {"XADD", "{test}:t:replay.trajectories:stream", "*", "k", "{test}:sheet"})
          .ok());
  EXPECT_TRUE(learner->Receive(kTrajectoriesTopic, 1).ok());
  EXPECT_TRUE(Eventually([&] { return learner->Depth(kTrajectoriesTopic)->dead == 1; }));
  const Lease letter = Take(*learner, kDeadTopic, 1).at(0);
  EXPECT_TRUE(learner->Ack(letter).ok());
  EXPECT_TRUE(learner->Flush(std::chrono::seconds(10)).ok());
  auto sheet = RedisClient::Connect(UrlOf("learner")).value().Do({"GET", "{test}:sheet"});
  EXPECT_EQ(ReplyText(**sheet), "s");
}

TEST_F(RedisAclTest, AWorkerTellsOfItselfAndTheWatcherSeesIt) {
  const auto learner = BusOf("learner");  // it brings the functions
  RedisRoster roster = RedisRoster::Connect(UrlOf("tools"), "test").value();
  v1::Heartbeat beat;
  beat.set_worker("tools-host-1"), beat.set_role("tools"), beat.set_started_ms(5);
  const Status told = roster.Beat(beat, {{"calls", 3}});
  ASSERT_TRUE(told.ok()) << told.ToString();
  EXPECT_EQ(roster.Workers()->size(), 1u);
  EXPECT_EQ(RedisRoster::Connect(UrlOf("watch"), "test")->Workers()->size(), 1u);
  EXPECT_TRUE(roster.Leave("tools-host-1").ok());
}

TEST_F(RedisAclTest, FilesAreNeverWrittenOver) {
  EXPECT_EQ(WriteRedisUsers(users_, directory_.path()).code(), Code::kExists);
}

}  // namespace
}  // namespace tidemill
