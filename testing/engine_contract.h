// What every EnginePort promises, whatever stands behind it: one suite, run on the engine of this
// program and on inference servers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "engine/engine_port.h"
#include "testing/ledger_run.h"
#include "testing/test_kit.h"

namespace tidemill {

// An engine under the contract, serving version 1, with a context of kContractContext tokens and
// LedgerBytes for its first ids.
class ContractEngine {
 public:
  virtual ~ContractEngine() = default;
  virtual EnginePort& port() = 0;
  virtual void Publish(uint64_t version) = 0;
  // Its draws are those of PlainDraw.
  virtual bool exact() const { return true; }
};

inline constexpr int32_t kContractContext = 2048;

struct ContractRow {
  std::string name;
  std::function<std::unique_ptr<ContractEngine>()> make;
};

class EngineContract : public testing::TestWithParam<ContractRow> {
 protected:
  EngineContract() : engine_(GetParam().make()) {
    port().events().Attach(bell_);
    port().feed().Attach(bell_);
  }
  ~EngineContract() override { port().feed().Detach(); }
  EnginePort& port() { return engine_->port(); }

  static SequenceStart Prompt(SequenceId id, int32_t tokens, size_t length = 40) {
    return {.id = id,
            .prompt = LedgerPrompt(length, id % 7),
            .turn = {.max_new_tokens = tokens, .seed = id}};
  }
  // The answer to a Start or Continue that does not stream.
  EngineEvent Await(SequenceId id) {
    const Time until = std::chrono::steady_clock::now() + kPatience;
    while (events_.count(id) == 0 && std::chrono::steady_clock::now() < until) {
      bell_.Wait(milliseconds(100));
      for (EngineEvent& event : port().events().TakeAll()) {
        const SequenceId of = event.turn.id;
        events_[of] = std::move(event);
      }
    }
    EXPECT_EQ(events_.count(id), 1u) << "sequence " << id << " was not answered";
    EngineEvent event = std::move(events_[id]);
    events_.erase(id);
    return event;
  }
  TurnDelta AwaitStream(SequenceId id, int* deltas = nullptr) {
    const Time until = std::chrono::steady_clock::now() + kPatience;
    TurnDelta whole;
    while (!whole.done && whole.status.ok() && std::chrono::steady_clock::now() < until) {
      bell_.Wait(milliseconds(100));
      for (TurnDelta& delta : port().feed().TakeAll()) {
        if (delta.part.id != id) continue;
        if (deltas != nullptr) ++*deltas;
        AppendPart(whole.part, std::move(delta.part));
        whole.done = delta.done;
        whole.status = delta.status;
      }
    }
    return whole;
  }
  TurnOutput Draw(SequenceStart start) {
    const SequenceId id = start.id;
    port().Start(std::move(start));
    EngineEvent event = Await(id);
    EXPECT_TRUE(event.status.ok()) << event.status.message();
    return std::move(event.turn);
  }
  static uint32_t Versioned(const TurnOutput& turn) {
    uint32_t tokens = 0;
    for (const TokenVersionRun& run : turn.versions) tokens += run.tokens;
    return tokens;
  }
  void ExpectPlain(std::vector<TokenId> before, const TurnOutput& turn, uint64_t seed) const {
    ASSERT_EQ(turn.logprobs.size(), turn.ids.size());
    for (size_t i = 0; i < turn.ids.size(); ++i) {
      if (i >= turn.forced && engine_->exact()) {
        const Drawn plain = PlainDraw(before, 1, seed);
        ASSERT_EQ(turn.ids[i], plain.id) << "token " << i;
        ASSERT_EQ(turn.logprobs[i], plain.logprob) << "token " << i;
      }
      ASSERT_LE(turn.logprobs[i], 0);
      before.push_back(turn.ids[i]);
    }
  }

  Bell bell_;
  std::unique_ptr<ContractEngine> engine_;
  std::map<SequenceId, EngineEvent> events_;
};

TEST_P(EngineContract, ATurnHasItsTokensLogprobsAndVersions) {
  const TurnOutput turn = Draw(Prompt(1, 30));
  EXPECT_EQ(turn.ids.size(), 30u);
  EXPECT_EQ(turn.finish, TurnFinish::kLength);
  ASSERT_EQ(turn.versions.size(), 1u);
  EXPECT_EQ(turn.versions[0].version, 1u);
  EXPECT_EQ(Versioned(turn), 30u);
  ExpectPlain(Prompt(1, 30).prompt, turn, 1);
}

TEST_P(EngineContract, DeltasOfAStreamMakeTheWholeTurn) {
  SequenceStart start = Prompt(2, 30);
  start.stream = true;
  port().Start(start);
  const TurnDelta whole = AwaitStream(2);
  ASSERT_TRUE(whole.done) << whole.status.message();
  EXPECT_EQ(whole.part.ids.size(), 30u);
  EXPECT_EQ(Versioned(whole.part), 30u);
  EXPECT_EQ(whole.part.finish, TurnFinish::kLength);
  ExpectPlain(Prompt(2, 30).prompt, whole.part, 2);
  EXPECT_TRUE(port().events().TakeAll().empty());
}

TEST_P(EngineContract, ALaterTurnIsDrawnBehindEverything) {
  std::vector<TokenId> all = Prompt(3, 10).prompt;
  const TurnOutput first = Draw(Prompt(3, 10));
  all = Join(Join(all, first.ids), {4, 5, 6});
  port().Continue(3, {4, 5, 6}, {.max_new_tokens = 12, .seed = 77});
  const EngineEvent second = Await(3);
  ASSERT_TRUE(second.status.ok()) << second.status.message();
  EXPECT_EQ(second.turn.ids.size(), 12u);
  ExpectPlain(all, second.turn, 77);
}

TEST_P(EngineContract, ForcedTokensBeginTheTurnAndAreNoDraws) {
  SequenceStart start = Prompt(4, 20);
  start.turn.forced = {7, 8, 9};
  const TurnOutput turn = Draw(start);
  EXPECT_EQ(turn.forced, 3u);
  ASSERT_EQ(turn.ids.size(), 20u);
  EXPECT_EQ(std::vector<TokenId>(turn.ids.begin(), turn.ids.begin() + 3), start.turn.forced);
  EXPECT_EQ(turn.logprobs[2], 0);
  EXPECT_EQ(Versioned(turn), 20u);
  ExpectPlain(start.prompt, turn, 4);
}

TEST_P(EngineContract, AStopIdEndsTheTurnAndIsPartOfIt) {
  const TurnOutput free = Draw(Prompt(5, 30));
  SequenceStart start = Prompt(12, 30);
  start.prompt = Prompt(5, 30).prompt;
  start.turn.seed = 5;
  start.turn.stop_ids = {free.ids[9]};
  const TurnOutput turn = Draw(start);
  EXPECT_EQ(turn.finish, TurnFinish::kStop);
  EXPECT_EQ(turn.ids.back(), free.ids[9]);
  EXPECT_LE(turn.ids.size(), 10u);
  EXPECT_EQ(Versioned(turn), turn.ids.size());
  EXPECT_EQ(turn.stop.string, -1);
}

TEST_P(EngineContract, AStopStringEndsTheTurnWithTheTokenThatCompletesIt) {
  const TurnOutput free = Draw(Prompt(6, 40));
  std::string text, stop;
  for (size_t i = 12; i < 16; ++i) stop += LedgerBytes(free.ids[i]);
  SequenceStart start = Prompt(13, 400);
  start.prompt = Prompt(6, 40).prompt;
  start.turn.seed = 6;
  start.turn.stop_strings = {"not in it", stop};
  const TurnOutput turn = Draw(start);
  EXPECT_EQ(turn.finish, TurnFinish::kStop);
  EXPECT_EQ(turn.stop.string, 1);
  ASSERT_LE(turn.ids.size(), 16u);
  EXPECT_EQ(Versioned(turn), turn.ids.size());
  for (const TokenId id : turn.ids) text += LedgerBytes(id);
  EXPECT_EQ(text.substr(turn.stop.byte, stop.size()), stop);
  // The sequence goes on behind it.
  port().Continue(13, {1}, {.max_new_tokens = 3});
  EXPECT_EQ(Await(13).turn.ids.size(), 3u);
}

TEST_P(EngineContract, TheContextEndsTheTurn) {
  const TurnOutput turn = Draw(Prompt(8, 100, kContractContext - 20));
  EXPECT_EQ(turn.finish, TurnFinish::kContext);
  EXPECT_EQ(turn.ids.size(), 20u);
  EXPECT_EQ(Versioned(turn), 20u);
}

TEST_P(EngineContract, WhatCannotStartIsToldWithTheReasonAndIsGone) {
  SequenceStart empty = Prompt(20, 5);
  empty.prompt = {};
  port().Start(empty);
  EXPECT_EQ(Await(20).status.code(), Code::kInvalid);
  SequenceStart outside = Prompt(21, 5);
  outside.prompt = {1, 1 << 30};
  port().Start(outside);
  EXPECT_EQ(Await(21).status.code(), Code::kInvalid);
  port().Start(Prompt(22, 5, kContractContext + 1));
  EXPECT_EQ(Await(22).status.code(), Code::kInvalid);
  SequenceStart cold = Prompt(23, 5);
  cold.turn.sampling.temperature = -1;
  port().Start(cold);
  EXPECT_EQ(Await(23).status.code(), Code::kInvalid);
  SequenceStart pinned = Prompt(24, 5);
  pinned.pin_version = 99;
  port().Start(pinned);
  EXPECT_FALSE(Await(24).status.ok());
  SequenceStart other = Prompt(25, 5);
  other.policy = static_cast<PolicyId>(7);
  port().Start(other);
  EXPECT_FALSE(Await(25).status.ok()) << "nobody published that policy";
  port().Continue(20, {}, {.max_new_tokens = 1});
  EXPECT_EQ(Await(20).status.code(), Code::kNotFound);
  EXPECT_EQ(Draw(Prompt(20, 5)).ids.size(), 5u) << "the number is free";
}

TEST_P(EngineContract, AReleasedTurnFreesItsPlaceAndOthersGoOn) {
  for (SequenceId id = 30; id < 34; ++id) port().Start(Prompt(id, kContractContext));
  for (SequenceId id = 30; id < 34; ++id) port().Release(id);
  EXPECT_TRUE(Eventually([&] { return port().Stats().running + port().Stats().waiting == 0; }));
  EXPECT_EQ(Draw(Prompt(35, 5)).ids.size(), 5u);
}

TEST_P(EngineContract, ManyTurnsAtOnceAreEachTheirOwn) {
  for (SequenceId id = 100; id < 164; ++id) port().Start(Prompt(id, 20));
  for (SequenceId id = 100; id < 164; ++id) {
    const EngineEvent event = Await(id);
    ASSERT_TRUE(event.status.ok()) << event.status.message();
    ExpectPlain(Prompt(id, 20).prompt, event.turn, id);
    port().Release(id);
  }
}

TEST_P(EngineContract, TokensAreLabelledWithTheVersionThatDrewThem) {
  for (SequenceId id = 40; id < 44; ++id) port().Start(Prompt(id, kContractContext - 60));
  engine_->Publish(2);
  ASSERT_TRUE(Eventually([&] { return port().version() == 2; }));
  for (SequenceId id = 40; id < 44; ++id) {
    const EngineEvent event = Await(id);
    ASSERT_TRUE(event.status.ok()) << event.status.message();
    EXPECT_EQ(Versioned(event.turn), event.turn.ids.size());
    uint64_t last = 0;
    for (const TokenVersionRun& run : event.turn.versions) {
      EXPECT_TRUE(run.version == 1 || run.version == 2);
      EXPECT_GT(run.version, last);
      last = run.version;
    }
  }
  const TurnOutput after = Draw(Prompt(45, 10));
  ASSERT_EQ(after.versions.size(), 1u);
  EXPECT_EQ(after.versions[0].version, 2u);
}

TEST_P(EngineContract, ATenantFindsWhatIsItsOwnInTheCacheAndNobodyElseDoes) {
  const auto ask = [&](SequenceId id, uint64_t tenant) {
    SequenceStart start = Prompt(id, 4, 160);
    start.prompt = LedgerPrompt(160, 1);
    start.tenant = tenant;
    start.session = tenant;
    start.service = SequenceClass::kLive;
    const TurnOutput turn = Draw(start);
    port().Release(id);
    return turn.cached_tokens;
  };
  EXPECT_EQ(ask(50, 5), 0u);
  EXPECT_GT(ask(51, 5), 0u);
  EXPECT_EQ(ask(52, 6), 0u);
  EXPECT_EQ(ask(53, 0), 0u);
  port().ForgetTenant(5);
  EXPECT_EQ(ask(54, 5), 0u);
}

}  // namespace tidemill
