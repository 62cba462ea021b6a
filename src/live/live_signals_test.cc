#include "live/live_signals.h"

#include <gtest/gtest.h>

#include "testing/live_fixture.h"

namespace tidemill {
namespace {

v1::Signal SignalOn(uint64_t session, uint32_t turn, double score, const std::string& source,
                    uint32_t revision = 1) {
  v1::Signal signal;
  signal.set_session(session);
  signal.set_turn(turn);
  signal.set_source(source);
  signal.set_score(score);
  signal.set_revision(revision);
  return signal;
}

v1::Session SessionNumber(uint64_t number) {
  v1::Session session;
  session.set_number(number);
  session.set_tenant("acme");
  session.set_task_class("chat");
  return session;
}

// One trajectory with the turns 1 and 2.
std::vector<v1::Trajectory> TwoTurns(uint64_t number) {
  v1::Trajectory trajectory;
  trajectory.mutable_id()->set_task("session-" + std::to_string(number));
  trajectory.mutable_id()->set_group(number);
  trajectory.mutable_id()->set_attempt(1);
  trajectory.add_prompt_ids(7);
  for (uint32_t turn = 1; turn <= 2; ++turn) {
    v1::Turn& one = *trajectory.add_turns();
    one.set_session_turn(turn);
    one.add_ids(8);
  }
  return {trajectory};
}

SignalOptions Training() {
  SignalOptions options;
  options.train = true;
  options.others_min = 2;
  return options;
}

TEST(ScoreSession, TheMostTrustedSourceDecidesAndTheOthersAreShown) {
  const SessionScore score =
      ScoreSession({SignalOn(1, 0, -1, "person"), SignalOn(1, 0, 0.5, "program", 3),
                    SignalOn(1, 1, 1, "judge")});
  EXPECT_DOUBLE_EQ(score.session, 0.5);
  ASSERT_EQ(score.parts.size(), 3u);
  EXPECT_EQ(score.parts[0].scorer(), "live.program");
  EXPECT_EQ(score.parts[0].scorer_version(), 3u);
  EXPECT_EQ(score.parts[0].weight(), 1);
  EXPECT_EQ(score.parts[1].weight(), 0);
  EXPECT_TRUE(score.turns.empty()) << "the judge's word on a turn does not count";
}

TEST(ScoreSession, WithoutAWordOnTheWholeItIsTheMeanOfTheTurns) {
  const SessionScore score =
      ScoreSession({SignalOn(1, 1, 1, "person"), SignalOn(1, 2, 0, "person")});
  EXPECT_DOUBLE_EQ(score.session, 0.5);
  EXPECT_DOUBLE_EQ(score.turns.at(2), 0);
  EXPECT_FALSE(ScoreSession({}).any);
}

TEST(LiveSignals, WithoutASignalNothingIsTrained) {
  LiveCounters counters;
  LiveSignals signals(Training(), counters);
  const LiveLessons lessons = signals.Settled(SessionNumber(1), TwoTurns(1));
  EXPECT_TRUE(lessons.events.empty());
  EXPECT_TRUE(lessons.verdicts.empty());
  EXPECT_EQ(signals.unsignalled(), 1u);
}

v1::Session BoundSession(uint64_t number, const std::string& task) {
  v1::Session session = SessionNumber(number);
  session.set_task_class(task);
  return session;
}

v1::SiblingsDone Done(uint64_t session, uint32_t scored, double reward_sum) {
  v1::SiblingsDone done;
  done.set_session(session);
  done.set_scored(scored);
  done.set_reward_sum(reward_sum);
  return done;
}

SignalOptions WithSiblings() {
  SignalOptions options = Training();
  options.tasks = {"t1"};
  options.siblings = 4;
  return options;
}

TEST(LiveSignals, ASessionBoundToATaskIsComparedWithAttemptsAtIt) {
  LiveCounters counters;
  LiveSignals signals(WithSiblings(), counters);
  EXPECT_TRUE(signals.Settled(BoundSession(1, "t1"), TwoTurns(1)).wanted.empty())
      << "nothing was said of it";
  LiveLessons lessons = signals.Put(SignalOn(1, 0, 1, "program"));
  ASSERT_EQ(lessons.wanted.size(), 1u);
  EXPECT_EQ(lessons.wanted[0].session(), 1u);
  EXPECT_EQ(lessons.wanted[0].task(), "t1");
  EXPECT_EQ(lessons.wanted[0].members(), 4u);
  EXPECT_TRUE(lessons.events.empty()) << "it waits";
  EXPECT_EQ(signals.awaiting(), 1u);
  lessons = signals.Put(SignalOn(1, 0, 0.5, "program", 2));
  EXPECT_TRUE(lessons.wanted.empty()) << "it is asked once";
  EXPECT_TRUE(lessons.events.empty());
  lessons = signals.Siblings(Done(1, 3, 0.75));
  ASSERT_EQ(lessons.events.size(), 1u);
  EXPECT_EQ(lessons.events[0].sample().trajectory().turns_size(), 2);
  EXPECT_DOUBLE_EQ(lessons.events[0].sample().live().baseline(), -0.5)
      << "a reward of 0.25 on the scale of scores";
  EXPECT_EQ(lessons.events[0].sample().live().others(), 3u);
  EXPECT_EQ(signals.awaiting(), 0u);
  EXPECT_TRUE(signals.Siblings(Done(1, 3, 3)).events.empty()) << "an answer that came twice";
  lessons = signals.Put(SignalOn(1, 0, -1, "program", 3));
  ASSERT_EQ(lessons.events.size(), 1u);
  EXPECT_DOUBLE_EQ(lessons.events[0].revised().live().baseline(), -0.5);
}

TEST(LiveSignals, WithoutSiblingsItIsComparedWithOtherSessions) {
  LiveCounters counters;
  LiveSignals signals(WithSiblings(), counters);
  (void)signals.Settled(BoundSession(1, "t1"), TwoTurns(1));
  (void)signals.Put(SignalOn(1, 0, 1, "program"));
  EXPECT_TRUE(signals.Siblings(Done(1, 0, 0)).events.empty()) << "there are no others yet";
  size_t samples = 0;
  for (uint64_t other = 2; other <= 3; ++other) {
    (void)signals.Settled(BoundSession(other, "t1"), TwoTurns(other));
    samples += signals.Put(SignalOn(other, 0, -1, "program")).events.size();
  }
  EXPECT_EQ(samples, 1u) << "the first; the others wait for their own siblings";
  (void)signals.Settled(SessionNumber(4), TwoTurns(4));
  EXPECT_TRUE(signals.Put(SignalOn(4, 0, 1, "program")).wanted.empty()) << "no task of the run";
}

TEST(LiveSignals, ADeletedSessionHearsNothingOfItsSiblings) {
  LiveCounters counters;
  LiveSignals signals(WithSiblings(), counters);
  (void)signals.Settled(BoundSession(1, "t1"), TwoTurns(1));
  (void)signals.Put(SignalOn(1, 0, 1, "program"));
  signals.Forget(1);
  EXPECT_EQ(signals.awaiting(), 0u);
  EXPECT_TRUE(signals.Siblings(Done(1, 4, 2)).events.empty());
}

TEST(LiveSignals, ATrajectoryIsSentOnceWithItsBaselineAndThenOnlyRevised) {
  LiveCounters counters;
  LiveSignals signals(Training(), counters);
  for (uint64_t session = 1; session <= 3; ++session) {
    signals.Settled(SessionNumber(session), TwoTurns(session));
  }
  EXPECT_TRUE(signals.Put(SignalOn(1, 1, 1, "person")).events.empty()) << "no others yet";
  EXPECT_TRUE(signals.Put(SignalOn(2, 0, -1, "person")).events.empty());
  EXPECT_EQ(signals.uncompared(), 2u);
  const LiveLessons lessons = signals.Put(SignalOn(3, 0, 0, "person"));
  ASSERT_EQ(lessons.events.size(), 3u) << "with the third each has two others";
  for (const v1::LiveEvent& event : lessons.events) {
    const v1::Sample& sample = event.sample();
    EXPECT_EQ(sample.trajectory().turns_size(), 2);
    EXPECT_EQ(sample.live().others(), 2u);
    const double own = sample.verdict().reward();
    EXPECT_DOUBLE_EQ(sample.live().baseline(), (1 + -1 + 0 - own) / 2);
  }
  EXPECT_EQ(signals.unsignalled(), 0u);
  const LiveLessons later = signals.Put(SignalOn(1, 2, -1, "person"));
  ASSERT_EQ(later.events.size(), 1u);
  ASSERT_TRUE(later.events[0].has_revised()) << "only the verdict goes again";
  const v1::SampleRevised& revised = later.events[0].revised();
  EXPECT_DOUBLE_EQ(revised.verdict().reward(), 0);
  ASSERT_EQ(revised.live().turn_scores_size(), 2);
  EXPECT_DOUBLE_EQ(revised.live().turn_scores(0), 1);
  EXPECT_DOUBLE_EQ(revised.live().turn_scores(1), -1);
  EXPECT_GT(later.verdicts[0].parts(0).scorer_version(),
            lessons.verdicts[0].parts(0).scorer_version());
}

TEST(LiveSignals, TheNewestOfOneSourceReplacesWhicheverIsDurableFirst) {
  LiveCounters counters;
  LiveSignals signals(Training(), counters);
  signals.Settled(SessionNumber(1), TwoTurns(1));
  v1::Signal first = SignalOn(1, 0, -1, "person"), second = SignalOn(1, 0, 1, "person");
  first.set_revision(signals.NextRevision(first));
  second.set_revision(signals.NextRevision(second));
  EXPECT_DOUBLE_EQ(signals.Put(second).verdicts.at(0).reward(), 1);
  EXPECT_TRUE(signals.Put(first).verdicts.empty());
  EXPECT_EQ(signals.SignalsOf(1).size(), 1u);
}

TEST(LiveSignals, ANewProcessSendsWhatWasNotUsedAndOnlyThat) {
  LiveState state;
  for (uint64_t session = 1; session <= 4; ++session) {
    state.trajectories.push_back({SessionNumber(session), TwoTurns(session)[0], session != 2});
    if (session != 4) state.signals.push_back(SignalOn(session, 0, 1, "person"));
  }
  LiveCounters counters;
  LiveSignals signals(Training(), counters);
  const LiveLessons lessons = signals.Restore(state);
  size_t whole = 0;
  for (const v1::LiveEvent& event : lessons.events) {
    whole += event.has_sample() ? 1 : 0;
    EXPECT_NE(event.sample().trajectory().id().group(), 2u);
    EXPECT_NE(event.sample().trajectory().id().group(), 4u);
    EXPECT_NE(event.revised().verdict().id().group(), 4u);
  }
  EXPECT_EQ(whole, 2u);
  EXPECT_EQ(signals.unsignalled(), 1u) << "session 4 has no signal";
}

// The whole way through the recorder.
class LiveFeedback : public ::testing::Test {
 protected:
  Result<std::string> Say(const std::string& body, const std::string& tenant = "someone") {
    Result<std::string> answer = Internal("nobody was told");
    const Tenant who{.name = tenant, .consent = Consent::kTrain};
    world_.recorder->TakeFeedback(
        {.tenant = who, .body = body, .session = "", .wall_ms = world_.clock.WallMs()},
        [&](Result<std::string> said) { answer = std::move(said); });
    world_.Step();
    world_.Step();
    return answer;
  }

  const ServedPolicy policy_ = TestPolicy(kTestTemplate);
  LiveWorld world_{policy_};
};

TEST_F(LiveFeedback, ATurnIsNamedByItsAnswerAndItsVerdictFollowsTheClose) {
  const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("hello")})));
  world_.Say(asked, "hi");
  const auto said = Say(R"({"id":"chatcmpl-none","thumb":"up"})");
  EXPECT_EQ(said.status().code(), Code::kNotFound);
  // The fixture's requests have ids of their own.
  const uint64_t number = asked.prompt.session;
  const auto whole = Say(R"({"session":"s)" + std::to_string(number) + R"(","thumb":"up"})");
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  ASSERT_EQ(world_.store.signals.size(), 1u);
  EXPECT_TRUE(world_.store.verdicts.empty()) << "the session is open";
  world_.CloseAll();
  world_.Step();
  ASSERT_EQ(world_.store.verdicts.size(), 1u);
  EXPECT_EQ(world_.store.verdicts.back().reward(), 1);
  ASSERT_TRUE(Say(R"({"session":"s)" + std::to_string(number) + R"(","thumb":"down"})").ok());
  EXPECT_EQ(world_.store.verdicts.back().reward(), -1) << "late, and revised";
  EXPECT_EQ(world_.recorder->counters().revised, 1u);
}

TEST_F(LiveFeedback, AnotherTenantsSessionDoesNotExist) {
  const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("hello")})),
                                 {{"x-tidemill-session", "mine"}});
  world_.Say(asked, "hi");
  EXPECT_EQ(Say(R"({"session":"mine","score":1})", "stranger").status().code(), Code::kNotFound);
  EXPECT_TRUE(Say(R"({"session":"mine","score":1})").ok());
}

TEST_F(LiveFeedback, FeedbackCanEndTheSession) {
  const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("hello")})),
                                 {{"x-tidemill-session", "mine"}});
  world_.Say(asked, "hi");
  ASSERT_TRUE(Say(R"({"session":"mine","score":0.5,"end":true})").ok());
  world_.Step();
  EXPECT_EQ(world_.store.sessions.at(asked.prompt.session).close_reason(), "ended by feedback");
  ASSERT_FALSE(world_.store.verdicts.empty());
  EXPECT_DOUBLE_EQ(world_.store.verdicts.back().reward(), 0.5);
}

TEST_F(LiveFeedback, WhatCannotBeStoredIsNotAcknowledged) {
  const Asked asked = world_.Ask(RequestOf(WireJson::array({UserMessage("hello")})),
                                 {{"x-tidemill-session", "mine"}});
  world_.Say(asked, "hi");
  world_.store.failure = Unavailable("disk full");
  EXPECT_EQ(Say(R"({"session":"mine","score":1})").status().code(), Code::kUnavailable);
}

TEST(LiveSignals, WhatIsInQuarantineIsTrainedWhenItIsAdmitted) {
  SignalOptions options = Training();
  options.quarantine.outlier = 6;
  LiveCounters counters;
  LiveSignals signals(options, counters);
  size_t sent = 0;
  for (uint64_t number = 1; number <= 20; ++number) {
    sent += signals.Settled(SessionNumber(number), TwoTurns(number)).events.size();
    sent += signals.Put(SignalOn(number, 0, 1, "person")).events.size();
  }
  EXPECT_EQ(sent, 20u);
  (void)signals.Settled(SessionNumber(21), TwoTurns(21));
  const LiveLessons held = signals.Put(SignalOn(21, 0, -1, "person"));
  EXPECT_TRUE(held.events.empty());
  EXPECT_EQ(held.verdicts.size(), 1u) << "what was said is stored";
  EXPECT_EQ(signals.quarantine().sessions(), 1u);
  EXPECT_FALSE(signals.Decide("nobody", true).ok());
  const auto admitted = signals.Decide("acme", true);
  ASSERT_TRUE(admitted.ok());
  ASSERT_EQ(admitted->events.size(), 1u);
  EXPECT_EQ(admitted->events[0].sample().trajectory().turns_size(), 2);
}

}  // namespace
}  // namespace tidemill
