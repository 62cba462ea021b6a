#include "live/session_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "tasks/case_record.h"
#include "testing/live_fixture.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

WireJson SystemMessage(const std::string& text) {
  return {{"role", "system"}, {"content", text}};
}

v1::ShownCase Shown(uint64_t number, const std::string& question, const std::string& answer,
                    bool good) {
  v1::ShownCase one;
  one.set_number(number);
  one.set_prompt(question);
  one.set_answer(answer);
  one.set_solved(good);
  return one;
}

TEST(CasesNote, HoldsAsManyAsFitTheMostUsefulLast) {
  const auto bytes = [](const std::string& text) { return text.size(); };
  const std::vector<v1::ShownCase> cases = {Shown(5, "q5", "a5", true), Shown(3, "q3", "a3", false),
                                            Shown(9, "q9", std::string(500, 'x'), true)};
  const CasesNote two = NoteOf(cases, 300, bytes);
  EXPECT_THAT(two.numbers, ElementsAre(5, 3));
  EXPECT_LT(two.text.find("a3"), two.text.find("a5"));
  EXPECT_THAT(two.text, HasSubstr("Answer, which was bad:\na3"));
  EXPECT_EQ(NoteOf(cases, 10, bytes).text, "");
  EXPECT_TRUE(NoteOf({}, 300, bytes).numbers.empty());
}

TEST(CasesNote, StandsInTheSystemMessageOrBeforeTheFirstQuestion) {
  const WireJson with =
      WithCases(WireJson::array({SystemMessage("be kind"), UserMessage("hello")}), "NOTE\n");
  ASSERT_EQ(with.size(), 2u);
  EXPECT_EQ(with[0]["content"], "be kind\n\nNOTE\n");
  EXPECT_EQ(with[1]["content"], "hello");
  const WireJson without =
      WithCases(WireJson::array({UserMessage("hello"), UserMessage("again")}), "NOTE\n");
  EXPECT_EQ(without[0]["content"], "NOTE\nThe question now:\nhello");
  EXPECT_EQ(without[1]["content"], "again");
  EXPECT_EQ(WithCases(WireJson::array({UserMessage("hello")}), "")[0]["content"], "hello");
}

// A run with memory: what is told to it, and what it shows.
class SessionCases : public testing::Test {
 protected:
  SessionCases() {
    TM_CHECK(OpenStandardTopics(bus_, {}).ok());
    Restart();
  }

  void Restart() {
    LiveLearning learning;
    learning.bus = &bus_;
    learning.signals.train = true;
    learning.memory.look = [this](const std::string& tenant, const std::string& prompt) {
      asked_.emplace_back(tenant, prompt);
      const auto it = known_.find(tenant);
      return it == known_.end() ? std::vector<v1::ShownCase>() : it->second;
    };
    LiveState state;
    for (const v1::Trajectory& one : world_.store.trajectories) {
      state.trajectories.push_back({.session = world_.store.sessions.at(one.id().group()),
                                    .trajectory = one,
                                    .usable = true});
    }
    state.signals = world_.store.signals;
    world_.recorder =
        std::make_unique<LiveRecorder>(world_.options, world_.builder, world_.store, world_.clock,
                                       world_.store.State(), state, learning);
  }

  void Feedback(const std::string& session, double score, bool end) {
    const std::string body =
        WireJson({{"session", session}, {"score", score}, {"end", end}}).dump();
    Result<std::string> told = Internal("nobody was told");
    world_.recorder->TakeFeedback(
        {.tenant = world_.tenant, .body = body, .session = "", .wall_ms = 5},
        [&](Result<std::string> answer) { told = std::move(answer); });
    for (int i = 0; i < 3; ++i) world_.Step();
    ASSERT_TRUE(told.ok()) << told.status().message();
  }

  // What memory was told since the last time.
  std::vector<v1::CaseRecord> Told() {
    for (int i = 0; i < 3; ++i) world_.Step();
    std::vector<v1::CaseRecord> records;
    for (const Lease& lease : TakeFrom(bus_, kMemoryCasesTopic, 100)) {
      EXPECT_TRUE(records.emplace_back().ParseFromString(lease.body));
      (void)bus_.Ack(lease);
    }
    return records;
  }

  std::string TextOf(const Asked& asked) const {
    return world_.policy.tokenizer.Decode(asked.prompt.prompts.at(0));
  }

  const ServedPolicy policy_ = TestPolicy(kTestTemplate);
  LiveWorld world_{policy_};
  MemoryBus bus_{world_.clock};
  std::map<std::string, std::vector<v1::ShownCase>> known_;  // by tenant
  std::vector<std::pair<std::string, std::string>> asked_;
};

TEST_F(SessionCases, ATurnWithAScoreBecomesACaseOfItsTenant) {
  const Asked asked = world_.Ask(
      RequestOf(WireJson::array({SystemMessage("be kind"), UserMessage("what is 2+2?")})));
  world_.Say(asked, "four");
  EXPECT_TRUE(Told().empty()) << "nothing was said of it yet";
  Feedback(asked.prompt.session_name, 0.5, true);
  const auto told = Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].tenant(), "someone");
  EXPECT_EQ(told[0].scope(), TenantScope("someone"));
  EXPECT_TRUE(InItsScope(told[0]));
  EXPECT_EQ(told[0].session(), asked.prompt.session);
  EXPECT_EQ(told[0].prompt(), "what is 2+2?");
  EXPECT_EQ(told[0].answer(), "four");
  EXPECT_TRUE(told[0].solved());
  EXPECT_EQ(told[0].reward(), 0.5);
  EXPECT_TRUE(CheckMessage(told[0]).ok()) << CheckMessage(told[0]).message();
  // A newer word is told, the same one is not.
  Feedback(asked.prompt.session_name, 0.5, false);
  EXPECT_TRUE(Told().empty());
  Feedback(asked.prompt.session_name, -1, false);
  const auto again = Told();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_FALSE(again[0].solved());
}

TEST_F(SessionCases, AProcessThatDiedBeforeTheCaseWasStoredTellsItAgain) {
  const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("what is 2+2?")})));
  world_.Say(asked, "four");
  Feedback(asked.prompt.session_name, 1, true);
  const auto first = Told();
  Restart();
  const auto again = Told();
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].SerializeAsString(), first[0].SerializeAsString());
}

TEST_F(SessionCases, CallsOfToolsAndSilenceAndNoOpinionAreNoCases) {
  const auto score = [&](const std::string& text, double value) {
    const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("do " + text)}), true));
    world_.Say(asked, text);
    Feedback(asked.prompt.session_name, value, true);
    return Told().size();
  };
  EXPECT_EQ(score("said", 1), 1u);
  EXPECT_EQ(score("neutral", 0), 0u);
  EXPECT_EQ(score("I look\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {}}\n</tool_call>", 1),
            0u);
  EXPECT_EQ(score(std::string(20'000, 'y'), 1), 0u);
}

TEST_F(SessionCases, ASessionIsShownTheSameCasesInEveryTurnAndRecordsThem) {
  known_["someone"] = {Shown(4, "what is 1+1?", "two", true)};
  WireJson messages = WireJson::array({SystemMessage("be kind"), UserMessage("what is 2+2?")});
  const Asked first = world_.Ask(RequestOf(messages));
  EXPECT_THAT(TextOf(first), HasSubstr("be kind\n\nEarlier questions"));
  EXPECT_THAT(TextOf(first), HasSubstr("two"));
  EXPECT_EQ(world_.recorder->counters().with_cases, 1u);
  messages.push_back(world_.Say(first, "four"));
  messages.push_back(UserMessage("sure?"));
  known_["someone"] = {Shown(5, "what is 3+3?", "six", true)};  // memory goes on
  const Asked second = world_.Ask(RequestOf(messages));
  EXPECT_EQ(second.prompt.session, first.prompt.session);
  EXPECT_THAT(TextOf(second), HasSubstr("two"));
  EXPECT_THAT(TextOf(second), Not(HasSubstr("six")));
  messages.push_back(world_.Say(second, "sure"));
  // A new process shows the same.
  Restart();
  messages.push_back(UserMessage("really?"));
  const Asked third = world_.Ask(RequestOf(messages));
  EXPECT_EQ(third.prompt.session, first.prompt.session);
  EXPECT_THAT(TextOf(third), HasSubstr("two"));
  world_.Say(third, "yes");
  // One line of tokens: each prompt goes on from the turn before.
  world_.CloseAll();
  ASSERT_EQ(world_.store.trajectories.size(), 1u);
  const v1::Trajectory& trajectory = world_.store.trajectories[0];
  EXPECT_EQ(trajectory.turns_size(), 3);
  EXPECT_THAT(trajectory.shown_cases(), ElementsAre(4));
  const auto& ids = third.prompt.prompts.at(0);
  const std::vector<uint32_t> flat = Flat(trajectory);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), flat.begin(), [](TokenId a, uint32_t b) {
    return static_cast<uint32_t>(a) == b;
  })) << "the exact prompt is recorded";
  // What the client sent has none of it.
  for (const auto& [session, turns] : world_.store.turns) {
    for (const v1::SessionTurn& turn : turns) {
      EXPECT_THAT(turn.messages_json(), Not(HasSubstr("Earlier questions")));
    }
  }
}

TEST_F(SessionCases, OnlyTheTenantItselfIsAskedFor) {
  known_["someone"] = {Shown(4, "what is 2+2?", "four of someone", true)};
  world_.tenant.name = "another";
  const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("what is 2+2?")})));
  EXPECT_THAT(TextOf(asked), Not(HasSubstr("four of someone")));
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0], std::pair(std::string("another"), std::string("what is 2+2?")));
}

TEST_F(SessionCases, WhoDoesNotConsentToTrainingNeitherWritesNorIsShownCases) {
  for (const Consent consent : {Consent::kStore, Consent::kNone}) {
    world_.tenant.consent = consent;
    known_["someone"] = {Shown(4, "what is 2+2?", "four of someone", true)};
    const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("what is 2+2?")})));
    EXPECT_THAT(TextOf(asked), Not(HasSubstr("four of someone")));
    EXPECT_TRUE(asked_.empty());
    if (consent == Consent::kNone) continue;
    world_.Say(asked, "four");
    Feedback(asked.prompt.session_name, 1, true);
    EXPECT_TRUE(Told().empty());
  }
}

TEST_F(SessionCases, AConversationThatBeganElsewhereIsShownNone) {
  known_["someone"] = {Shown(4, "what is 2+2?", "four of someone", true)};
  const Asked asked = world_.Ask(RequestOf(WireJson::array(
      {UserMessage("hello"), {{"role", "assistant"}, {"content", "hi"}}, UserMessage("2+2?")})));
  EXPECT_THAT(TextOf(asked), Not(HasSubstr("four of someone")));
}

TEST_F(SessionCases, ASecretReachesNoCase) {
  world_.options.redaction = std::make_shared<const Redaction>(Redaction::Make({}).value());
  Restart();
  const std::string secret = "sk-ant-api03-" + std::string(80, 'a');
  const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("my key is " + secret)})));
  world_.Say(asked, "fine");
  Feedback(asked.prompt.session_name, 1, true);
  EXPECT_TRUE(Told().empty());
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_THAT(asked_[0].second, Not(HasSubstr("aaaaaaaaaaaa")));
}

TEST_F(SessionCases, NothingIsToldOfADeletedSession) {
  const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("what is 2+2?")})));
  world_.Say(asked, "four");
  world_.recorder->Erase({.session = asked.prompt.session});
  for (int i = 0; i < 3; ++i) world_.Step();
  EXPECT_TRUE(Told().empty());
}

}  // namespace
}  // namespace tidemill
