// Each role with its own user on a server of the test's own: what it needs works, the rest is
// refused.
#include "bus/redis/redis_acl.h"

#include <gmock/gmock.h>

#include "bus/redis/redis_client.h"
#include "bus/redis/redis_roster.h"
#include "bus/redis/redis_test_kit.h"
#include "bus/standard_topics.h"
#include "core/topics.h"

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
  EXPECT_EQ(Try("watch", {"EVAL", "return redis.call('DEL', KEYS[1])", "1", "{test}:sheet"}).code(),
            Code::kUnavailable)
      << "a script may no more than its caller";
  EXPECT_TRUE(Try("watch", {"GET", "{test}:sheet"}).ok());
}

TEST_F(RedisAclTest, AWorkerTellsOfItselfAndTheWatcherSeesIt) {
  RedisRoster roster = RedisRoster::Connect(UrlOf("tools"), "test").value();
  v1::Heartbeat beat;
  beat.set_worker("tools-host-1"), beat.set_role("tools"), beat.set_started_ms(5);
  ASSERT_TRUE(roster.Beat(beat, {{"calls", 3}}).ok());
  EXPECT_EQ(roster.Workers()->size(), 1u);
  EXPECT_EQ(RedisRoster::Connect(UrlOf("watch"), "test")->Workers()->size(), 1u);
  EXPECT_TRUE(roster.Leave("tools-host-1").ok());
}

TEST_F(RedisAclTest, FilesAreNeverWrittenOver) {
  EXPECT_EQ(WriteRedisUsers(users_, directory_.path()).code(), Code::kExists);
}

}  // namespace
}  // namespace tidemill
