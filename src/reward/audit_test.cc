#include "reward/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/random.h"
#include "core/topics.h"
#include "reward/reward_loop.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

// Accepts until the alarm, at most `most`.
uint32_t UntilAlarm(WrongAccepts& watch, double rate, uint32_t most, Random& random) {
  for (uint32_t n = 1; n <= most; ++n) {
    if (watch.Add(random.Chance(rate))) return n;
  }
  return most + 1;
}

TEST(WrongAccepts, ItsFalseAlarmProbabilityIsTheOneStated) {
  const WrongAccepts watch({});
  EXPECT_LE(AlarmProbability(watch.gain(), watch.threshold(), 0.01, WrongAccepts::kHorizon), 0.01);
  EXPECT_GT(AlarmProbability(watch.gain(), watch.threshold() - 1, 0.01, WrongAccepts::kHorizon),
            0.01);
  EXPECT_GT(AlarmProbability(watch.gain(), watch.threshold(), 0.1, 150), 0.96);
  // The exact probability against drawn runs.
  Random random(7);
  constexpr int kRuns = 4000;
  int alarms = 0;
  for (int i = 0; i < kRuns; ++i) {
    WrongAccepts fresh = watch;
    alarms += UntilAlarm(fresh, 0.1, 100, random) <= 100 ? 1 : 0;
  }
  const double exact = AlarmProbability(watch.gain(), watch.threshold(), 0.1, 100);
  EXPECT_NEAR(alarms / double{kRuns}, exact, 4 * std::sqrt(exact * (1 - exact) / kRuns));
}

TEST(WrongAccepts, FindsAFaultSoonAndLeavesTheRightAlone) {
  const WrongAccepts fresh({});
  for (const uint64_t seed : {1, 2, 3}) {
    Random random(seed);
    int found = 0, alarms = 0;
    for (int run = 0; run < 20; ++run) {
      WrongAccepts watch = fresh, clean = fresh;
      ASSERT_LE(UntilAlarm(watch, 0.01, 500, random), 501u);
      found += UntilAlarm(watch, 0.1, 150, random) <= 150 ? 1 : 0;
      alarms += UntilAlarm(clean, 0.01, 5000, random) <= 5000 ? 1 : 0;
    }
    EXPECT_GE(found, 18) << "seed " << seed;
    EXPECT_LE(alarms, 1) << "seed " << seed;
  }
}

AuditConfig AuditKeys(double share) {
  AuditConfig keys;
  keys.share = share;
  return keys;
}

TEST(Audit, DrawsTheShareAndTheSameEpisodesEveryTime) {
  const Audit audit("judge", AuditKeys(0.2), 5), again("judge", AuditKeys(0.2), 5);
  int drawn = 0;
  for (uint32_t i = 0; i < 5000; ++i) {
    v1::TrajectoryId id;
    id.set_task("t"), id.set_group(i / 8), id.set_member(i % 8);
    ASSERT_EQ(audit.Draws(id), again.Draws(id));
    drawn += audit.Draws(id) ? 1 : 0;
  }
  EXPECT_NEAR(drawn / 5000.0, 0.2, 0.03);
}

TEST(Audit, AfterAnAlarmOnlyAPersonBringsTrustBack) {
  Audit audit("judge", AuditKeys(1), 1);
  int alarms = 0;
  for (int i = 0; i < 100; ++i) alarms += audit.Add(true, false) ? 1 : 0;
  EXPECT_EQ(alarms, 1);
  EXPECT_FALSE(audit.trusted());
  EXPECT_EQ(audit.rise(), 1u);
  EXPECT_THAT(audit.Text(), HasSubstr("of 100 audited accepts were wrong"));
  // Another process learns of it by the version; one whose config trusts the scorer goes on.
  Audit other("judge", AuditKeys(1), 1);
  other.LearnRise(1);
  EXPECT_FALSE(other.trusted());
  AuditConfig trusting = AuditKeys(1);
  trusting.trust = {"judge"};
  Audit settled("judge", trusting, 1);
  settled.LearnRise(1);
  EXPECT_TRUE(settled.trusted());
  EXPECT_EQ(settled.rise(), 1u);
  for (int i = 0; i < 100 && settled.trusted(); ++i) settled.Add(true, false);
  EXPECT_FALSE(settled.trusted());
  EXPECT_EQ(settled.rise(), 2u);
}

// The reward loop over a judge and boxes that the test plays.
class AuditedRewards : public testing::Test {
 protected:
  AuditedRewards() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    EXPECT_TRUE(bus_.Open("asker", {}).ok());
    JudgeConfig judge;
    judge.name = "j", judge.endpoint = "http://x";
    reward_.judges = {judge};
    reward_.weights = {{"judge", 1}};
    options_.judges = reward_.judges;
    options_.retries = 1;
  }
  void Make() {
    std::vector<WeightedScorer> scorers;
    for (const auto& [name, weight] : reward_.weights)
      scorers.push_back({*NewScorer(name, reward_), weight});
    loop_ = std::make_unique<RewardLoop>(bus_, clock_, std::move(scorers), options_, nullptr);
    loop_->Attach(waker_);
  }
  // One episode: what the judge says and what execution would.
  v1::Verdict Episode(double judged, bool passes, bool tests = true, uint32_t known = 0) {
    v1::ScoreRequest request;
    request.set_request_id("r" + std::to_string(++episodes_)), request.set_reply_to("asker");
    request.mutable_id()->set_task("t"), request.mutable_id()->set_group(episodes_);
    request.mutable_id()->set_attempt(1);
    request.set_end(v1::EPISODE_END_SUBMITTED), request.set_purpose(v1::PURPOSE_TRAIN);
    request.set_turns(1), request.add_last_calls(), request.set_submission("s");
    if (tests) request.mutable_grading()->add_cases()->set_input("1");
    if (known > 0) {
      v1::ScorerVersion& version = *request.add_known_versions();
      version.set_scorer("judge"), version.set_version(known);
    }
    EXPECT_TRUE(bus_.PublishRequest(kScoreTopic, "asker", request.SerializeAsString()).ok());
    for (int i = 0; i < 3; ++i) {
      loop_->Step(clock_.Now());
      for (const Lease& lease : bus_.Receive(kJudgeTopic, 10).value()) AnswerJudge(lease, judged);
      for (const Lease& lease : bus_.Receive(kToolsGradeTopic, 10).value())
        AnswerGrade(lease, passes);
    }
    loop_->Step(clock_.Now());
    v1::Verdict verdict;
    for (const Lease& lease : bus_.Receive("asker", 10).value()) {
      EXPECT_TRUE(verdict.ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return verdict;
  }
  void AnswerJudge(const Lease& lease, double value) {
    v1::JudgeRequest request;
    ASSERT_TRUE(request.ParseFromString(lease.body));
    ++judge_asked_;
    v1::JudgeAnswer answer;
    answer.set_request_id(request.request_id()), answer.set_token(request.token());
    answer.set_available(value >= 0);
    if (value >= 0) {
      v1::Judgement& judgement = *answer.add_judgements();
      judgement.set_judge("j"), judgement.set_value(value), judgement.set_reason("why");
    }
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), answer.SerializeAsString()).ok());
    EXPECT_TRUE(bus_.Ack(lease).ok());
  }
  void AnswerGrade(const Lease& lease, bool passes) {
    v1::ToolRequest request;
    ASSERT_TRUE(request.ParseFromString(lease.body));
    ++graded_;
    v1::ToolResult result;
    result.set_request_id(request.request_id()), result.set_token(request.token());
    *result.mutable_episode() = request.episode();
    result.set_outcome(v1::OUTCOME_OK), result.set_tests_total(4);
    result.set_tests_passed(passes ? 4 : 0);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), result.SerializeAsString()).ok());
    EXPECT_TRUE(bus_.Ack(lease).ok());
  }

  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  RewardConfig reward_;
  RewardOptions options_;
  std::unique_ptr<RewardLoop> loop_;
  uint64_t episodes_ = 0;
  int judge_asked_ = 0, graded_ = 0;
};

// Keeps what was recorded of one kind.
struct KeptRecords final : Journal {
  void Record(std::string_view kind, const Numbers& numbers, const Words& words) override {
    if (kind == "disagreement") kept.emplace_back(numbers, words);
  }
  std::vector<std::pair<Numbers, Words>> kept;
};

TEST_F(AuditedRewards, ADisagreementIsKeptAndExplained) {
  KeptRecords journal;
  options_.journal = &journal;
  options_.audit = AuditKeys(1);
  Make();
  Episode(0.2, true);
  Episode(1, true);
  Episode(0.9, false);
  ASSERT_EQ(journal.kept.size(), 2u);
  EXPECT_EQ(journal.kept[0].second.at("scorer"), "judge");
  EXPECT_THAT(journal.kept[0].second.at("explanation"), HasSubstr("4 of 4 hidden tests pass, and"));
  EXPECT_EQ(journal.kept[0].first.at("group"), 1);
  EXPECT_THAT(journal.kept[1].second.at("comment"), HasSubstr("0.9"));
  EXPECT_THAT(journal.kept[1].second.at("explanation"), HasSubstr("0 of 4 hidden tests pass"));
}

TEST_F(AuditedRewards, WithoutAnAuditAJudgedAnswerIsNotExecuted) {
  Make();
  const v1::Verdict verdict = Episode(0.75, false);
  ASSERT_TRUE(verdict.scored()) << verdict.cause();
  EXPECT_DOUBLE_EQ(verdict.reward(), 0.75);
  EXPECT_TRUE(verdict.solved());
  EXPECT_EQ(verdict.parts(0).judgements(0).reason(), "why");
  EXPECT_THAT(verdict.parts(0).comment(), HasSubstr("j 0.75: why"));
  EXPECT_EQ(graded_, 0);
}

TEST_F(AuditedRewards, AJudgeThatIsAwayMeansNoVerdictAndNeverAZero) {
  options_.retry_delay = milliseconds(0);
  Make();
  const v1::Verdict verdict = Episode(-1, true);
  EXPECT_FALSE(verdict.scored());
  EXPECT_THAT(verdict.cause(), HasSubstr("unavailable"));
  EXPECT_EQ(judge_asked_, 2);
}

TEST_F(AuditedRewards, AFaultIsFoundExecutionTakesOverAndTheVersionRises) {
  options_.audit = AuditKeys(0.25);
  Make();
  Random random(11);
  // Before: 1 of 100 accepts is wrong. Then 10 of 100.
  for (int i = 0; i < 400; ++i) EXPECT_TRUE(Episode(1, !random.Chance(0.01)).scored());
  const int before = graded_;
  EXPECT_NEAR(before, 100, 40);
  EXPECT_EQ(loop_->audit_counters().size(), 1u);
  v1::Verdict verdict;
  int audited = 0;
  for (int i = 0; i < 4000; ++i) {
    verdict = Episode(1, !random.Chance(0.1));
    audited = graded_ - before;
    if (verdict.parts(0).scorer_version() == 2) break;
  }
  EXPECT_LE(audited, 150);
  EXPECT_EQ(verdict.parts(0).scorer_version(), 2u);
  judge_asked_ = 0;
  verdict = Episode(1, false);
  EXPECT_EQ(judge_asked_, 0);
  EXPECT_EQ(verdict.reward(), 0);
  EXPECT_THAT(verdict.parts(0).comment(), HasSubstr("not trusted"));
  EXPECT_EQ(Episode(0, true).reward(), 1);
  // Where nothing can be executed there is no reward rather than a wrong one.
  EXPECT_FALSE(Episode(1, true, /*tests=*/false).scored());
}

// Wrong accepts rise from 1 to 10 % in the middle of 20 runs, and stay at 1 % in 20 others.
TEST_F(AuditedRewards, AFaultIsFoundInTimeInMostRunsAndAGoodJudgeIsLeftAlone) {
  constexpr int kRuns = 20, kBefore = 300, kWithin = 150, kClean = 5000;
  options_.audit = AuditKeys(1);
  Random random(20);
  int found = 0, early = 0, alarms = 0;
  // Accepts of which `wrong` are; whether one of them raised an alarm.
  const auto alarm_within = [&](int accepts, double wrong) {
    for (int i = 0; i < accepts; ++i) {
      const v1::Verdict verdict = Episode(1, !random.Chance(wrong));
      if (verdict.parts(0).scorer_version() == 2) return true;
    }
    return false;
  };
  for (int run = 0; run < kRuns; ++run) {
    options_.seed = static_cast<uint64_t>(run);
    Make();
    if (alarm_within(kBefore, 0.01))
      ++early;
    else if (alarm_within(kWithin, 0.1))
      ++found;
    Make();
    alarms += alarm_within(kClean, 0.01) ? 1 : 0;
  }
  EXPECT_GE(found, 18) << early << " alarms before the fault";
  EXPECT_LE(alarms, 1);
}

TEST_F(AuditedRewards, AnAlarmOfAnotherWorkerCountsHereToo) {
  options_.audit = AuditKeys(0.25);
  Make();
  const v1::Verdict verdict = Episode(1, false, true, /*known=*/2);
  EXPECT_EQ(judge_asked_, 0);
  EXPECT_EQ(verdict.reward(), 0);
  EXPECT_EQ(verdict.parts(0).scorer_version(), 2u);
}

TEST_F(AuditedRewards, TheCorrectedRewardIsThatOfExecutionOnAverage) {
  options_.audit = AuditKeys(0.2);
  options_.audit.unbiased = true;
  options_.audit.false_accepts = 0.4, options_.audit.alarm_at = 0.9;
  Make();
  Random random(3);
  constexpr int kEpisodes = 3000;
  double sum = 0, plain = 0, executed = 0, squares = 0;
  for (int i = 0; i < kEpisodes; ++i) {
    // A judge that is wrong on a tenth of the failures and on a fifth of the passes.
    const bool passes = random.Chance(0.5);
    const double judged =
        passes ? (random.Chance(0.2) ? 0.3 : 0.9) : (random.Chance(0.1) ? 0.8 : 0);
    const v1::Verdict verdict = Episode(judged, passes);
    ASSERT_TRUE(verdict.scored());
    EXPECT_NEAR(verdict.reward() - verdict.correction(), judged, 1e-12);
    sum += verdict.reward(), plain += judged, executed += passes ? 1 : 0;
    squares += verdict.correction() * verdict.correction();
  }
  const double error = std::sqrt(squares) / kEpisodes;
  EXPECT_NEAR(sum / kEpisodes, executed / kEpisodes, 4 * error);
  EXPECT_GT(std::abs(plain - executed) / kEpisodes, 0.01) << "the judge is biased";
}

}  // namespace
}  // namespace tidemill
