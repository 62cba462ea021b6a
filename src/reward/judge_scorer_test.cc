#include "reward/judge_scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

JudgeConfig JudgeNamed(const std::string& name, const std::string& task) {
  JudgeConfig keys;
  keys.name = name, keys.task = task, keys.endpoint = "http://x";
  return keys;
}

v1::JudgeAnswer Said(const std::vector<double>& values, bool turns) {
  v1::JudgeAnswer answer;
  answer.set_available(true);
  for (size_t i = 0; i < values.size(); ++i) {
    v1::Judgement& judgement = *answer.add_judgements();
    judgement.set_value(values[i]), judgement.set_turn(turns ? static_cast<uint32_t>(i + 1) : 0);
  }
  return answer;
}

v1::ScoreRequest Submitted() {
  v1::ScoreRequest request;
  request.set_end(v1::EPISODE_END_SUBMITTED), request.set_turns(3);
  request.set_prompt("p"), request.set_submission("s");
  for (const char* text : {"a", "b", "c"}) {
    request.add_turn_texts(text);
    request.add_last_calls()->set_text(std::string("result of ") + text);
  }
  return request;
}

TEST(JudgeScorer, AsksEveryJudgeAndWeighsWhatTheySayOfTheAnswer) {
  RewardConfig reward;
  reward.judges = {JudgeNamed("right", "outcome"), JudgeNamed("clear", "outcome"),
                   JudgeNamed("steps", "process")};
  reward.judges[0].weight = 3, reward.judges[1].version = 4;
  const auto scorer = NewJudgeScorer(reward).value();
  EXPECT_EQ(scorer->version(), 6u);
  const v1::ScoreRequest request = Submitted();
  ScoreEvidence evidence;
  EXPECT_EQ(scorer->Needs(request, evidence).size(), 3u);
  EXPECT_EQ(scorer->Solved(request, evidence), TaskSolved::kAskLater);
  evidence.judged["right"] = Said({1}, false);
  evidence.judged["clear"] = Said({0.2}, false);
  evidence.judged["steps"] = Said({1, -1, 0}, true);
  EXPECT_TRUE(scorer->Needs(request, evidence).empty());
  EXPECT_DOUBLE_EQ(scorer->Score(request, evidence)->value(), 0.8);
  EXPECT_EQ(scorer->Solved(request, evidence), TaskSolved::kYes);
  EXPECT_EQ(scorer->Score(request, evidence)->judgements_size(), 5);
}

TEST(JudgeScorer, ShapesTurnRewards) {
  RewardConfig reward;
  reward.judges = {JudgeNamed("steps", "process")};
  JudgeConfig& judge = reward.judges[0];
  ScoreEvidence evidence;
  evidence.judged["steps"] = Said({1, -1, 0.5}, true);
  const auto rewards = [&] { return NewJudgeScorer(reward).value()->TurnRewards(evidence); };
  judge.weight = 0.5;
  EXPECT_THAT(rewards(), ElementsAre(0.5, -0.5, 0.25));
  judge.clip = 0.5, judge.weight = 1;
  EXPECT_THAT(rewards(), ElementsAre(0.5, -0.5, 0.5));
  judge.normalize = "turns", judge.clip = 1;
  EXPECT_THAT(rewards(), ElementsAre(DoubleNear(1.0 / 3, 1e-12), DoubleNear(-1.0 / 3, 1e-12),
                                     DoubleNear(0.5 / 3, 1e-12)));
  judge.normalize = "center";
  const double mean = 0.5 / 3;
  EXPECT_THAT(rewards(), ElementsAre(DoubleNear(1 - mean, 1e-12), DoubleNear(-1 - mean, 1e-12),
                                     DoubleNear(0.5 - mean, 1e-12)));
}

TEST(JudgeScorer, DoesNotJudgeWhatWasNotSubmittedOrWhatTestsEvaluate) {
  RewardConfig reward;
  reward.judges = {JudgeNamed("right", "outcome")};
  const auto scorer = NewJudgeScorer(reward).value();
  v1::ScoreRequest request = Submitted();
  request.set_end(v1::EPISODE_END_MAX_TURNS);
  EXPECT_TRUE(scorer->Needs(request, {}).empty());
  EXPECT_EQ(scorer->Score(request, {})->value(), 0);
  request = Submitted();
  request.set_purpose(v1::PURPOSE_EVAL);
  request.mutable_grading()->add_cases()->set_input("1");
  ASSERT_EQ(scorer->Needs(request, {}).size(), 1u);
  EXPECT_EQ(scorer->Needs(request, {})[0].name, "grade");
}

TEST(JudgeScorer, TurnsGoWithWhatCameNextAndReferencesOnlyToEquivalence) {
  v1::ScoreRequest request = Submitted();
  request.mutable_grading()->mutable_specification()->set_source("int f;");
  const auto steps = MakeJudgeRequest(JudgeNamed("j", "next_state"), request);
  ASSERT_EQ(steps->turns_size(), 3);
  EXPECT_EQ(steps->turns(1).text(), "b");
  EXPECT_EQ(steps->turns(1).next(), "result of b");
  EXPECT_EQ(MakeJudgeRequest(JudgeNamed("j", "outcome"), request)->other(), "");
  EXPECT_EQ(MakeJudgeRequest(JudgeNamed("j", "equivalence"), request)->other(), "int f;");
  request.clear_turn_texts();
  EXPECT_THAT(MakeJudgeRequest(JudgeNamed("j", "process"), request).status().message(),
              HasSubstr("did not come"));
}

v1::ScoreRequest AmongPeers(const std::vector<std::string>& peers) {
  v1::ScoreRequest request = Submitted();
  for (size_t i = 0; i < peers.size(); ++i) {
    v1::ScoredPeer& peer = *request.add_peers();
    peer.set_member(static_cast<uint32_t>(i + 1));
    peer.set_submitted(!peers[i].empty()), peer.set_submission(peers[i]);
  }
  return request;
}

TEST(JudgeScorer, AnAnswersValueAmongItsPeersIsTheShareOfComparisonsItWon) {
  RewardConfig reward;
  reward.judges = {JudgeNamed("better", "pairwise")};
  const auto scorer = NewJudgeScorer(reward).value();
  // No answer loses and the same answer ties, which nobody has to be asked; the fifth is too many.
  const v1::ScoreRequest request = AmongPeers({"x", "", "s", "y", "z"});
  const auto asked = MakeJudgeRequest(reward.judges[0], request).value();
  EXPECT_THAT(asked.others(), ElementsAre("x", "y"));
  ScoreEvidence evidence;
  EXPECT_EQ(scorer->Needs(request, evidence).size(), 1u);
  EXPECT_FALSE(CheckJudgeAnswer(reward.judges[0], request, Said({1}, false)).ok());
  evidence.judged["better"] = Said({0.75, 0}, false);
  EXPECT_TRUE(CheckJudgeAnswer(reward.judges[0], request, evidence.judged["better"]).ok());
  const auto part = scorer->Score(request, evidence);
  EXPECT_DOUBLE_EQ(part->value(), (0.75 + 1 + 0.5 + 0) / 4);
  EXPECT_THAT(part->comment(), HasSubstr("of 4 comparisons won"));
  EXPECT_EQ(scorer->Solved(request, evidence), TaskSolved::kNotKnown)
      << "the better of two may be wrong";
}

TEST(JudgeScorer, WithNobodyToCompareWithNobodyIsAsked) {
  RewardConfig reward;
  reward.judges = {JudgeNamed("better", "pairwise"), JudgeNamed("right", "outcome")};
  const auto scorer = NewJudgeScorer(reward).value();
  v1::ScoreRequest request = AmongPeers({"", "s"});
  ScoreEvidence evidence;
  evidence.judged["right"] = Said({0.25}, false);
  EXPECT_TRUE(scorer->Needs(request, evidence).empty());
  EXPECT_DOUBLE_EQ(scorer->Score(request, evidence)->value(), (0.75 + 0.25) / 2);
  EXPECT_EQ(scorer->Solved(request, evidence), TaskSolved::kNo);
  request.clear_peers();
  EXPECT_DOUBLE_EQ(scorer->Score(request, evidence)->value(), (0.5 + 0.25) / 2);
  request = AmongPeers({"x"});
  request.set_end(v1::EPISODE_END_MAX_TURNS);
  EXPECT_TRUE(scorer->Needs(request, {}).empty());
  EXPECT_EQ(scorer->Score(request, {})->value(), 0) << "no answer loses against everyone";
}

}  // namespace
}  // namespace tidemill
