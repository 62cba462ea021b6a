// What a remote engine does when servers are lost, slow, torn, or lie.
#include "engine/remote/remote_engine.h"

#include <gtest/gtest.h>

#include "testing/remote_kit.h"

namespace tidemill {
namespace {

class RemoteEngineTest : public testing::Test {
 protected:
  void Make(RemoteKitOptions options) {
    kit_ = std::make_unique<RemoteKit>(std::move(options));
    kit_->engine().events().Attach(bell_);
    kit_->engine().feed().Attach(bell_);
  }
  RemoteEngine& engine() { return kit_->engine(); }
  static SequenceStart Prompt(SequenceId id, int32_t tokens) {
    return {
        .id = id, .prompt = LedgerPrompt(30, id), .turn = {.max_new_tokens = tokens, .seed = id}};
  }
  EngineEvent Await(SequenceId id) {
    EngineEvent found;
    found.status = Timeout("not answered");
    (void)Eventually([&] {
      for (EngineEvent& event : engine().events().TakeAll()) answers_[event.turn.id] = event;
      const auto it = answers_.find(id);
      if (it == answers_.end()) return false;
      found = it->second;
      answers_.erase(it);
      return true;
    });
    return found;
  }
  bool Running(size_t host, size_t requests) {
    return Eventually([&] {
      return kit_->host(host).With([](ScriptedInference& s) { return s.running(); }) >= requests;
    });
  }
  void ExpectPlain(const EngineEvent& event, uint64_t version) {
    ASSERT_TRUE(event.status.ok()) << event.status.message();
    std::vector<TokenId> all = LedgerPrompt(30, event.turn.id);
    for (const TokenId id : event.turn.ids) {
      ASSERT_EQ(id, PlainDraw(all, version, event.turn.id).id);
      all.push_back(id);
    }
    ASSERT_EQ(event.turn.versions.size(), 1u);
    EXPECT_EQ(event.turn.versions[0].version, version);
  }

  Bell bell_;
  std::unique_ptr<RemoteKit> kit_;
  std::map<SequenceId, EngineEvent> answers_;
};

TEST_F(RemoteEngineTest, ALostServerCostsTimeAndNoTurn) {
  // One may serve before the other does: it cannot take all turns.
  RemoteKitOptions options{.servers = 2};
  options.remote.turns_per_server = 4;
  Make(std::move(options));
  for (const size_t host : {0, 1}) {
    kit_->host(host).With([](ScriptedInference& s) { s.faults.deaf = true; });
  }
  for (SequenceId id = 1; id <= 8; ++id) engine().Start(Prompt(id, 40));
  ASSERT_TRUE(Running(0, 4) && Running(1, 4)) << "both have their share";
  kit_->host(0).With([](ScriptedInference& s) { s.Restart(); });
  for (const size_t host : {0, 1}) {
    kit_->host(host).With([](ScriptedInference& s) { s.faults.deaf = false; });
  }
  for (SequenceId id = 1; id <= 8; ++id) ExpectPlain(Await(id), 1);
  // The one that came back was given its weights before it got work.
  for (SequenceId id = 11; id <= 18; ++id) engine().Start(Prompt(id, 40));
  for (SequenceId id = 11; id <= 18; ++id) ExpectPlain(Await(id), 1);
}

TEST_F(RemoteEngineTest, AStreamOfWhichTokensWereToldFailsInsteadOfSayingOthers) {
  Make({.pace = milliseconds(1)});
  SequenceStart start = Prompt(1, 1900);
  start.stream = true;
  engine().Start(start);
  Status status;
  size_t tokens = 0;
  const auto look = [&] {
    for (const TurnDelta& delta : engine().feed().TakeAll()) {
      tokens += delta.part.ids.size();
      status = delta.status;
    }
  };
  ASSERT_TRUE(Eventually([&] {
    look();
    return tokens > 0;
  }));
  kit_->host().With([](ScriptedInference& s) { s.Restart(); });
  ASSERT_TRUE(Eventually([&] {
    look();
    return !status.ok();
  }));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_LT(tokens, 1900u);
}

TEST_F(RemoteEngineTest, AnswersThatBreakOffAreAskedAgainAndEndAsAFailureOfOurs) {
  Make({});
  kit_->host().With([](ScriptedInference& s) { s.faults.cut_after = 3; });
  engine().Start(Prompt(1, 20));
  const EngineEvent event = Await(1);
  EXPECT_EQ(event.status.code(), Code::kUnavailable);
  kit_->host().With([](ScriptedInference& s) { s.faults.cut_after = 0; });
  engine().Start(Prompt(1, 20));
  ExpectPlain(Await(1), 1);
}

TEST_F(RemoteEngineTest, AVersionThatIsNotOursFailsTheTurn) {
  for (const char* version : {"default", "2", "01", "-1", "7x"}) {
    Make({});
    kit_->host().With([&](ScriptedInference& s) { s.faults.false_version = version; });
    engine().Start(Prompt(1, 20));
    const EngineEvent event = Await(1);
    EXPECT_EQ(event.status.code(), Code::kUnavailable) << version;
    EXPECT_NE(event.status.message().find(version), std::string::npos) << event.status.message();
  }
}

TEST_F(RemoteEngineTest, OneServerThatLiesIsFoundOutAndTheOtherAnswers) {
  Make({.servers = 2});
  kit_->host(0).With([](ScriptedInference& s) { s.faults.span_shift = 5; });
  for (SequenceId id = 1; id <= 6; ++id) engine().Start(Prompt(id, 20));
  for (SequenceId id = 1; id <= 6; ++id) {
    const EngineEvent event = Await(id);
    if (event.status.ok()) ExpectPlain(event, 1);
  }
  kit_->host(0).With([](ScriptedInference& s) { s.faults.span_shift = 0; });
  engine().Start(Prompt(9, 20));
  ExpectPlain(Await(9), 1);
}

TEST_F(RemoteEngineTest, AnUpdateThatChangedOnlyTheLabelIsNeverAnnounced) {
  Make({.servers = 2});
  kit_->host(0).With([](ScriptedInference& s) { s.faults.label_only = true; });
  kit_->Publish(2);
  ASSERT_TRUE(Eventually([&] { return engine().version() == 2; })) << "the right server has it";
  for (SequenceId id = 1; id <= 8; ++id) engine().Start(Prompt(id, 30));
  for (SequenceId id = 1; id <= 8; ++id) ExpectPlain(Await(id), 2);
  EXPECT_EQ(engine().Stats().versions_held, 1u) << "one server serves";
  kit_->host(0).With([](ScriptedInference& s) { s.faults.label_only = false; });
  EXPECT_TRUE(Eventually([&] { return engine().Stats().versions_held == 2; })) << "it is repaired";
}

TEST_F(RemoteEngineTest, TokensOfAVersionThatFailedTheCanaryAreDropped) {
  Make({});
  kit_->host().With([](ScriptedInference& s) { s.faults.deaf = true; });
  for (SequenceId id = 1; id <= 4; ++id) engine().Start(Prompt(id, 200));
  ASSERT_TRUE(Running(0, 4));
  kit_->host().With([](ScriptedInference& s) {
    s.faults.half_update = true;
    s.faults.deaf = false;
  });
  kit_->Publish(2);
  ASSERT_TRUE(Eventually([&] { return engine().Stats().versions_held == 0; }));
  kit_->host().With([](ScriptedInference& s) { s.faults.half_update = false; });
  for (SequenceId id = 1; id <= 4; ++id) {
    const EngineEvent event = Await(id);
    ASSERT_TRUE(event.status.ok()) << event.status.message();
    for (const TokenVersionRun& run : event.turn.versions) EXPECT_LE(run.version, 2u);
    if (event.turn.versions.size() == 1) ExpectPlain(event, event.turn.versions[0].version);
  }
}

TEST_F(RemoteEngineTest, AnUpdateThatFailsHalfWayIsRepairedBeforeTheServerGoesOn) {
  Make({});
  kit_->host().With([](ScriptedInference& s) { s.faults.failing_updates = 1; });
  engine().Start(Prompt(1, 1500));
  kit_->Publish(2);
  ASSERT_TRUE(Eventually([&] { return engine().version() == 2; }));
  const EngineEvent event = Await(1);
  EXPECT_TRUE(event.status.ok()) << event.status.message();
  EXPECT_EQ(kit_->host().With([](ScriptedInference& s) { return s.torn_draws(); }), 0u);
}

TEST_F(RemoteEngineTest, AServerThatTakesNoUpdateAtAllIsLeftAloneUntilItDoes) {
  Make({.servers = 2});
  kit_->host(1).With([](ScriptedInference& s) { s.faults.failing_updates = 5; });
  kit_->Publish(2);
  ASSERT_TRUE(Eventually([&] { return engine().version() == 2; }));
  for (SequenceId id = 1; id <= 4; ++id) engine().Start(Prompt(id, 30));
  for (SequenceId id = 1; id <= 4; ++id) ExpectPlain(Await(id), 2);
  EXPECT_TRUE(Eventually([&] { return engine().Stats().versions_held == 2; }));
  EXPECT_EQ(kit_->host(1).With([](ScriptedInference& s) { return s.torn_draws(); }), 0u);
}

TEST_F(RemoteEngineTest, OneThatWaitsForWeightsStartsNoTurnUnderOlderOnes) {
  Make({.servers = 2, .remote = {.wait_for_weights = true}});
  for (uint64_t version = 2; version < 8; ++version) {
    kit_->Publish(version);
    engine().Start(Prompt(version, 20));
    ExpectPlain(Await(version), version);
  }
}

TEST_F(RemoteEngineTest, OnlyTheNewestVersionIsPushed) {
  Make({});
  for (uint64_t version = 2; version <= 30; ++version) kit_->Publish(version);
  ASSERT_TRUE(Eventually([&] { return engine().version() == 30; }));
  EXPECT_LT(engine().Stats().swaps, 30u);
}

TEST_F(RemoteEngineTest, TheContextIsThatOfTheServer) {
  Make({.max_context = 100});
  EXPECT_EQ(engine().max_context(), 100);
}

TEST_F(RemoteEngineTest, AServerThatSaysNoIsAFailureOfOursAndTheTurnWaitsForAnother) {
  Make({});
  kit_->host().Refuse(503);
  engine().Start(Prompt(1, 20));
  EXPECT_TRUE(Eventually([&] { return engine().Stats().versions_held == 0; }));
  kit_->host().Refuse(0);
  ExpectPlain(Await(1), 1);
}

TEST_F(RemoteEngineTest, TruncationIsRefusedWhereItsDistributionIsNotReported) {
  Make({.kind = ScriptedKind::kSglang});
  SequenceStart start = Prompt(1, 20);
  start.turn.sampling.top_p = 0.9f;
  engine().Start(start);
  const EngineEvent event = Await(1);
  EXPECT_EQ(event.status.code(), Code::kInvalid);
  EXPECT_NE(event.status.message().find("engine.backend"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
