#include "live/live_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/token_support.h"
#include "live/session_name.h"
#include "testing/live_fixture.h"

namespace tidemill {
namespace {

class LiveRecorderTest : public testing::Test {
 protected:
  // Closes every session; tokens by what became of them.
  uint64_t Trained() const { return world_.recorder->counters().trained; }
  size_t TokensOf(size_t turn) const {
    return world_.store.turns.begin()->second.at(turn).answer().ids_size();
  }

  ServedPolicy policy_ = TestPolicy(kTestTemplate);
  LiveWorld world_{policy_};
  WireJson messages_ = WireJson::array({UserMessage("hello")});
};

TEST_F(LiveRecorderTest, TheClientSeesTheEndOnceTheTurnIsStored) {
  const Asked asked = world_.Ask(RequestOf(messages_));
  int told = 0;
  world_.recorder->Finished(
      LiveWorld::Turn(asked, {1, 2, 3}, {{"role", "assistant"}, {"content", "x"}}, {}, 0),
      [&](const Status& status) { told += status.ok(); });
  EXPECT_EQ(world_.store.turns.size(), 1u);
  EXPECT_EQ(told, 0) << "the store has not answered";
  world_.Step();
  EXPECT_EQ(told, 1);
}

TEST_F(LiveRecorderTest, AStoreThatFailsIsAnErrorAndNothingStandsOnTheLostTurn) {
  world_.store.failure = Unavailable("disk full");
  const Asked asked = world_.Ask(RequestOf(messages_));
  EXPECT_EQ(world_.Answer(asked, {5, 6}, {{"role", "assistant"}, {"content", "lost"}}).code(),
            Code::kUnavailable);
  world_.store.failure = Ok();
  world_.Say(world_.Ask(RequestOf(messages_)), "kept");
  ASSERT_EQ(world_.store.turns.size(), 1u);
  EXPECT_EQ(world_.store.turns.begin()->second.size(), 1u);
  world_.Restart();
  world_.CloseAll();
  EXPECT_EQ(Trained(), TokensOf(0));
}

TEST_F(LiveRecorderTest, WithoutConsentNothingIsKept) {
  world_.tenant.consent = Consent::kNone;
  world_.Say(world_.Ask(RequestOf(messages_)), "secret");
  world_.CloseAll();
  EXPECT_TRUE(world_.store.sessions.empty());
  EXPECT_TRUE(world_.store.turns.empty());
}

TEST_F(LiveRecorderTest, WhatMayOnlyBeStoredIsNotTrained) {
  world_.tenant.consent = Consent::kStore;
  world_.Say(world_.Ask(RequestOf(messages_)), "stored");
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().consent, TokensOf(0));
  EXPECT_TRUE(world_.store.trajectories.empty());
}

TEST_F(LiveRecorderTest, TenantsNeverShareASession) {
  messages_.push_back(world_.Say(world_.Ask(RequestOf(messages_)), "mine"));
  messages_.push_back(UserMessage("more"));
  world_.tenant.name = "another";
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  world_.Say(world_.Ask(RequestOf(messages_)), "theirs");
  world_.Say(world_.Ask(RequestOf(messages_), named), "theirs");
  world_.tenant.name = "someone";
  world_.Say(world_.Ask(RequestOf(messages_), named), "mine again");
  EXPECT_EQ(world_.store.sessions.size(), 4u);
}

// The same body while the first is open, or after it was cut, is a retry; after its end it is asked
// again on purpose.
TEST_F(LiveRecorderTest, ARetryIsNotCountedTwice) {
  const Asked open = world_.Ask(RequestOf(messages_));
  const Asked twice = world_.Ask(RequestOf(messages_));
  EXPECT_EQ(open.prompt.session, twice.prompt.session);
  world_.recorder->Abandoned(
      LiveWorld::Turn(open, {1, 2}, {{"role", "assistant"}, {"content", "a"}}, {}, 0),
      TurnLoss::kClientLeft, Closed("the client left"));
  world_.Say(twice, "first");
  EXPECT_EQ(world_.recorder->counters().retries, 1u);
  EXPECT_EQ(world_.recorder->counters().questions, 1u);
  const Asked declared = world_.Ask(RequestOf(messages_), {{"x-stainless-retry-count", "1"}});
  world_.Say(declared, "second");
  EXPECT_EQ(world_.recorder->counters().retries, 2u);
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().cut, 2u);
  EXPECT_EQ(world_.recorder->counters().retried, TokensOf(1));
  EXPECT_EQ(Trained(), TokensOf(2)) << "the last answer counts";
}

TEST_F(LiveRecorderTest, TheAttemptThatTheClientWentOnFromCounts) {
  const Asked one = world_.Ask(RequestOf(messages_));
  const Asked two = world_.Ask(RequestOf(messages_));
  const WireJson seen = world_.Say(one, "the one seen");
  world_.Say(two, "the one lost on the way");
  messages_.push_back(seen);
  messages_.push_back(UserMessage("thanks"));
  world_.Say(world_.Ask(RequestOf(messages_)), "welcome");
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().retried, TokensOf(1));
  EXPECT_EQ(Trained(), TokensOf(0) + TokensOf(2));
}

TEST_F(LiveRecorderTest, TheSameQuestionAskedAgainOnPurposeIsANewTurn) {
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  world_.Say(world_.Ask(RequestOf(messages_), named), "one");
  world_.Say(world_.Ask(RequestOf(messages_), named), "two");
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().questions, 2u);
  EXPECT_EQ(Trained(), TokensOf(0) + TokensOf(1));
}

// The client has its answer and left the repetition of its request. That this is still on its way
// to the store makes no repetition of what it asks next.
TEST_F(LiveRecorderTest, AQuestionIsNewOnceNobodyWaitsForTheOneBefore) {
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  const Asked one = world_.Ask(RequestOf(messages_), named);
  const Asked twice = world_.Ask(RequestOf(messages_), named);
  world_.Say(one, "seen");
  world_.recorder->Abandoned(
      LiveWorld::Turn(twice, {1, 2}, {{"role", "assistant"}, {"content", "a"}}, {}, 0),
      TurnLoss::kClientLeft, Closed("the client left"));
  const Asked again = world_.Ask(RequestOf(messages_), named);
  EXPECT_EQ(world_.recorder->counters().retries, 1u);
  EXPECT_EQ(world_.recorder->counters().questions, 2u);
  world_.Say(again, "asked on purpose");
  world_.CloseAll();
  EXPECT_EQ(Trained(), TokensOf(0) + TokensOf(2));
}

// Two answers said the same: the cut one, and one to another question that is not known any more.
TEST_F(LiveRecorderTest, ACutAnswerThatIsRepeatedTakesNothingFromTheWholeOne) {
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  world_.recorder->Abandoned(LiveWorld::Turn(world_.Ask(RequestOf(messages_), named), {1, 2},
                                             {{"role", "assistant"}, {"content", "ok"}}, {}, 0),
                             TurnLoss::kClientLeft, Closed("the client left"));
  world_.Step();
  world_.Say(world_.Ask(RequestOf(messages_), named), "the whole answer");
  const WireJson other = WireJson::array({UserMessage("something else"),
                                          {{"role", "assistant"}, {"content", "ok"}},
                                          UserMessage("and then?")});
  world_.Say(world_.Ask(RequestOf(other), named), "then");
  world_.CloseAll();
  EXPECT_EQ(Trained(), TokensOf(1) + TokensOf(2));
  EXPECT_EQ(world_.recorder->counters().retried, 0u);
}

// Nobody knows whether the client saw an answer that was stored just before a crash.
TEST_F(LiveRecorderTest, AfterARestartTheSameBodyIsARetry) {
  world_.Say(world_.Ask(RequestOf(messages_)), "maybe seen");
  world_.Restart();
  world_.Say(world_.Ask(RequestOf(messages_)), "seen");
  EXPECT_EQ(world_.recorder->counters().retries, 1u);
  world_.CloseAll();
  EXPECT_EQ(Trained(), TokensOf(1));
}

TEST_F(LiveRecorderTest, ARetryAfterARestartThatIsCutIsRetriedToo) {
  world_.Say(world_.Ask(RequestOf(messages_)), "maybe seen");
  world_.Restart();
  world_.recorder->Abandoned(LiveWorld::Turn(world_.Ask(RequestOf(messages_)), {1, 2},
                                             {{"role", "assistant"}, {"content", "a"}}, {}, 0),
                             TurnLoss::kClientLeft, Closed("the client left"));
  world_.Step();
  world_.Say(world_.Ask(RequestOf(messages_)), "seen");
  EXPECT_EQ(world_.recorder->counters().retries, 2u);
  EXPECT_EQ(world_.recorder->counters().questions, 0u);
  world_.CloseAll();
  EXPECT_EQ(Trained(), TokensOf(2));
}

TEST_F(LiveRecorderTest, OfSeveralChoicesThoseThatAreContinuedAreTrained) {
  ChatRequest request = RequestOf(messages_);
  request.sampling.n = 3;
  const Asked asked = world_.Ask(request);
  std::vector<WireJson> choices;
  for (int choice = 0; choice < 3; ++choice) {
    const std::string text = "choice " + std::to_string(choice);
    choices.push_back(ReadMessage(policy_, text));
    ASSERT_TRUE(
        world_.Answer(asked, DrawIds(policy_, text, world_.random), choices[choice], {}, choice)
            .ok());
  }
  messages_.push_back(choices[1]);
  messages_.push_back(UserMessage("good"));
  world_.Say(world_.Ask(RequestOf(messages_)), "yes");
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().choice, TokensOf(0) + TokensOf(2));
  EXPECT_EQ(Trained(), TokensOf(1) + TokensOf(3));
}

TEST_F(LiveRecorderTest, WhatWasNotDrawnFromTheFullDistributionIsNotTrained) {
  std::vector<TurnParams> params(4);
  params[0].sampling.temperature = 0;
  params[1].sampling.top_p = 0.9f;
  params[2].sampling.top_k = 20;
  params[3].sampling.min_p = 0.1f;
  uint64_t sampled = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    world_.Say(world_.Ask(RequestOf(messages_), {{"x-session-id", std::to_string(i)}}), "x",
               params[i]);
    sampled += world_.store.turns.rbegin()->second.at(0).answer().ids_size();
  }
  EXPECT_EQ(world_.store.turns.begin()->second.at(0).untrainable(), "temperature");
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().sampling, sampled);
  EXPECT_EQ(Trained(), 0u);
}

TEST_F(LiveRecorderTest, TruncatedSamplingIsTrainedWhereItsSupportsAreKnown) {
  const Asked asked = world_.Ask(RequestOf(messages_));
  TurnParams params;
  params.sampling.top_p = 0.9f;
  RecordedTurn turn = LiveWorld::Turn(asked, {11, 12, 13, 14, 15},
                                      {{"role", "assistant"}, {"content", "f"}}, params, 0);
  turn.output.forced = 2;
  for (const TokenId id : turn.output.ids) {
    turn.output.supports.Add(EncodeSupport(std::vector<int32_t>{id, 40}));
  }
  world_.recorder->Finished(turn, [](const Status&) {});
  world_.Step();
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().sampling, 0u);
  EXPECT_EQ(Trained(), 3u);
  ASSERT_EQ(world_.store.trajectories.size(), 1u);
  const v1::Turn& trained = world_.store.trajectories[0].turns(0);
  EXPECT_EQ(trained.supports().set_of_size(), 3);
  const std::vector<uint32_t> ids = {13, 14, 15};
  EXPECT_TRUE(CheckSupports(trained.supports(), ids, 100).ok());
}

TEST_F(LiveRecorderTest, ForcedTokensAreContext) {
  const Asked asked = world_.Ask(RequestOf(messages_));
  RecordedTurn turn = LiveWorld::Turn(asked, {11, 12, 13, 14, 15},
                                      {{"role", "assistant"}, {"content", "f"}}, {}, 0);
  turn.output.forced = 2;
  turn.output.versions = {{3, 1}, {4, 4}};
  world_.recorder->Finished(turn, [](const Status&) {});
  world_.Step();
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().forced, 2u);
  ASSERT_EQ(world_.store.trajectories.size(), 1u);
  const v1::Trajectory& trajectory = world_.store.trajectories[0];
  EXPECT_EQ(trajectory.turns(0).ids_size(), 3);
  EXPECT_EQ(trajectory.turns(0).logprobs_size(), 3);
  ASSERT_EQ(trajectory.turns(0).versions_size(), 1);
  EXPECT_EQ(trajectory.turns(0).versions(0).tokens(), 3u);
  EXPECT_EQ(trajectory.prompt_ids_size(), static_cast<int>(asked.prompt.prompts[0].size()) + 2);
}

TEST_F(LiveRecorderTest, ATurnCutByAStopStringIsTrainedWholeAndContinuedBeforeTheStop) {
  const Asked asked = world_.Ask(RequestOf(messages_));
  Random random(2);
  std::vector<TokenId> ids = DrawIds(policy_, "one two ", random, false);
  const uint32_t kept = static_cast<uint32_t>(ids.size());
  policy_.tokenizer.EncodeTo("xxSTOP", SpecialTokens::kAsText, ids);
  RecordedTurn turn =
      LiveWorld::Turn(asked, ids, {{"role", "assistant"}, {"content", "one two xx"}}, {}, 0);
  turn.output.stop = {.string = 0, .token = kept, .byte = 10};
  // "xx" may be a token of its own: then it is wholly before the stop.
  size_t bytes = 8;
  while (bytes + policy_.tokenizer.TokenBytes(ids[turn.output.stop.token]).size() <= 10) {
    bytes += policy_.tokenizer.TokenBytes(ids[turn.output.stop.token++]).size();
  }
  world_.recorder->Finished(turn, [](const Status&) {});
  world_.Step();
  messages_.push_back({{"role", "assistant"}, {"content", "one two xx"}});
  messages_.push_back(UserMessage("on"));
  const Asked next = world_.Ask(RequestOf(messages_));
  const std::vector<TokenId>& prompt = next.prompt.prompts[0];
  const size_t before = asked.prompt.prompts[0].size();
  for (size_t i = 0; i < turn.output.stop.token; ++i) ASSERT_EQ(prompt[before + i], ids[i]);
  EXPECT_NE(policy_.tokenizer.Decode(prompt).find("one two xx<|im_end|>"), std::string::npos);
  world_.Say(next, "three");
  world_.CloseAll();
  EXPECT_EQ(Trained(), TokensOf(0) + TokensOf(1)) << "those of the stop string, too";
  EXPECT_EQ(world_.store.trajectories.size(), 2u);
}

TEST_F(LiveRecorderTest, AnEmptyAnswerIsContinuedOnItsIds) {
  const Asked asked = world_.Ask(RequestOf(messages_));
  messages_.push_back(world_.Say(asked, ""));
  messages_.push_back(UserMessage("hello?"));
  const std::vector<TokenId>& first = asked.prompt.prompts[0];
  const Asked next = world_.Ask(RequestOf(messages_));
  ASSERT_GT(next.prompt.prompts[0].size(), first.size());
  EXPECT_EQ(next.prompt.prompts[0][first.size()], policy_.end_ids[0]);
  EXPECT_EQ(next.prompt.session, asked.prompt.session);
}

// Which of two equal answers an edited history shows stays the same from prompt to prompt.
TEST_F(LiveRecorderTest, WhatAPromptShowedStaysAsItWasShown) {
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  world_.Say(world_.Ask(RequestOf(messages_), named), "fine");
  WireJson edited = WireJson::array({UserMessage("edited")});
  edited.push_back({{"role", "assistant"}, {"content", "fine"}});
  edited.push_back(UserMessage("one"));
  const Asked one = world_.Ask(RequestOf(edited), named);
  edited.push_back(world_.Say(one, "first"));
  // Another turn says the same, drawn as other ids.
  world_.Say(world_.Ask(RequestOf(WireJson::array({UserMessage("other")})), named), "fine");
  edited.push_back(UserMessage("two"));
  const Asked two = world_.Ask(RequestOf(edited), named);
  const std::vector<TokenId>& shown = one.prompt.prompts[0];
  ASSERT_GT(two.prompt.prompts[0].size(), shown.size());
  EXPECT_TRUE(std::equal(shown.begin(), shown.end(), two.prompt.prompts[0].begin()));
}

TEST_F(LiveRecorderTest, AHelpersTurnIsStoredAndNotTrained) {
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  world_.Say(world_.Ask(RequestOf(WireJson::array({UserMessage("a title for hello")})), named),
             "Hello");
  messages_.push_back(world_.Say(world_.Ask(RequestOf(messages_, true), named), "working"));
  messages_.push_back(UserMessage("more"));
  world_.Say(world_.Ask(RequestOf(messages_, true), named), "done");
  std::map<std::string, std::string> subagent = named;
  subagent["x-openai-subagent"] = "review";
  world_.Say(world_.Ask(RequestOf(WireJson::array({UserMessage("review")}), true), subagent), "ok");
  world_.CloseAll();
  EXPECT_EQ(world_.recorder->counters().side, TokensOf(0) + TokensOf(3));
  EXPECT_EQ(Trained(), TokensOf(1) + TokensOf(2));
}

TEST_F(LiveRecorderTest, AClosedSessionGoesOnAndItsEarlierTurnsAreNotTrainedAgain) {
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  messages_.push_back(world_.Say(world_.Ask(RequestOf(messages_), named), "one"));
  world_.CloseAll();
  EXPECT_EQ(world_.store.sessions.begin()->second.close_reason(), "idle");
  messages_.push_back(UserMessage("still there?"));
  world_.Say(world_.Ask(RequestOf(messages_), named), "two");
  EXPECT_EQ(world_.store.sessions.begin()->second.closed_ms(), 0);
  world_.CloseAll();
  ASSERT_EQ(world_.store.sessions.size(), 1u);
  ASSERT_EQ(world_.store.trajectories.size(), 2u);
  EXPECT_NE(world_.store.trajectories[0].id().task(), world_.store.trajectories[1].id().task());
  EXPECT_EQ(world_.store.trajectories[1].turns_size(), 1);
  EXPECT_EQ(world_.store.trajectories[1].turns(0).ids_size(), static_cast<int>(TokensOf(1)));
}

TEST_F(LiveRecorderTest, TheClientEndsASession) {
  const Asked asked = world_.Ask(RequestOf(messages_), {{kSessionEndHeader, "1"}});
  EXPECT_TRUE(world_.store.sessions.empty());
  world_.Say(asked, "bye");
  world_.Step();
  EXPECT_EQ(world_.store.sessions.begin()->second.close_reason(), "ended by the client");
  EXPECT_EQ(world_.recorder->counters().open, 0u);
}

TEST_F(LiveRecorderTest, SessionsAboveTheBoundAreClosedOldestFirst) {
  LiveOptions options;
  options.max_sessions = 2;
  LiveWorld world(policy_, options);
  for (int i = 0; i < 5; ++i) {
    world.Say(world.Ask(RequestOf(messages_), {{"x-session-id", std::to_string(i)}}), "x");
    world.clock.Advance(std::chrono::seconds(2));
    world.Step();
  }
  EXPECT_EQ(world.store.sessions.at(1).close_reason(), "memory");
  EXPECT_EQ(world.recorder->counters().open, 2u);
  EXPECT_EQ(world.store.sessions.at(5).closed_ms(), 0);
}

TEST_F(LiveRecorderTest, ASessionHasABoundOfTurns) {
  LiveOptions options;
  options.max_turns = 2;
  LiveWorld world(policy_, options);
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  for (int i = 0; i < 2; ++i) {
    world.Say(world.Ask(RequestOf(WireJson::array({UserMessage(std::to_string(i))})), named), "x");
  }
  EXPECT_EQ(world.Ask(RequestOf(messages_), named).status.code(), Code::kFull);
}

TEST_F(LiveRecorderTest, AConversationThatCannotBeRenderedLeavesNothingBehind) {
  const ServedPolicy refusing = TestPolicy("{{ raise_exception('no') }}");
  LiveWorld world(refusing);
  EXPECT_EQ(world.Ask(RequestOf(messages_)).status.code(), Code::kInvalid);
  EXPECT_EQ(world.recorder->counters().open, 0u);
}

TEST_F(LiveRecorderTest, RawCompletionsOfANamedSessionShareTheirTokens) {
  ChatRequest request;
  request.api = Api::kCompletions;
  request.prompts = {{.text = "", .ids = {1, 2, 3}}, {.text = "", .ids = {4, 5}}};
  const std::map<std::string, std::string> named = {{"x-session-id", "s"}};
  const Asked asked = world_.Ask(request, named, "one");
  ASSERT_EQ(asked.prompt.prompts.size(), 2u);
  EXPECT_TRUE(world_.Answer(asked, {7, 8}, nullptr, {}, 0).ok());
  EXPECT_TRUE(world_.Answer(asked, {9}, nullptr, {}, 1).ok());
  request.prompts = {{.text = "", .ids = {1, 2, 3, 7, 8, 6}}};
  EXPECT_TRUE(world_.Answer(world_.Ask(request, named, "two"), {10}, nullptr).ok());
  world_.Restart();
  world_.CloseAll();
  ASSERT_EQ(world_.store.trajectories.size(), 2u);
  EXPECT_EQ(Flat(world_.store.trajectories[0]), (std::vector<uint32_t>{1, 2, 3, 7, 8, 6, 10}));
  EXPECT_EQ(Flat(world_.store.trajectories[1]), (std::vector<uint32_t>{4, 5, 9}));
}

TEST_F(LiveRecorderTest, TurnsOfAnotherTemperatureHaveATrajectoryOfTheirOwn) {
  TurnParams warm;
  warm.sampling.temperature = 1.5f;
  for (int i = 0; i < 3; ++i) {
    messages_.push_back(world_.Say(world_.Ask(RequestOf(messages_)), "answer " + std::to_string(i),
                                   i == 1 ? warm : TurnParams{}));
    messages_.push_back(UserMessage("and " + std::to_string(i)));
  }
  world_.CloseAll();
  ASSERT_EQ(world_.store.trajectories.size(), 2u);
  EXPECT_EQ(world_.store.trajectories[0].turns_size(), 2);
  EXPECT_EQ(world_.store.trajectories[1].sampling().temperature(), 1.5);
}

}  // namespace
}  // namespace tidemill
