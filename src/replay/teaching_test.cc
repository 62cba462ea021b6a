#include <gmock/gmock.h>

#include "testing/replay_fixture.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReplayTeacherTest : public ReplayTest {
 protected:
  ReplayTeacherTest() {
    options_.teacher = true;
    options_.drop_zero_variance = false;
  }
  std::vector<v1::TeacherRequest> Asked() {
    std::vector<v1::TeacherRequest> asked;
    for (const Lease& lease : bus_.Receive(kTeacherTopic, 100).value()) {
      EXPECT_TRUE(asked.emplace_back().ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return asked;
  }
  void Teach(const v1::TeacherRequest& request, float score, bool available = true,
             int surplus = 0) {
    v1::TeacherAnswer answer;
    answer.set_request_id(request.request_id()), answer.set_token(request.token());
    answer.set_available(available);
    if (!available) answer.set_cause("no connection");
    for (const v1::TaughtSequence& sequence : request.sequences()) {
      for (const v1::TaughtSpan& span : sequence.spans()) {
        if (!available) continue;
        v1::TurnScores& turn = *answer.add_turns();
        turn.set_turn(span.turn());
        for (uint32_t i = 0; i < span.tokens() + surplus; ++i) turn.add_logprobs(score);
      }
    }
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), answer.SerializeAsString()).ok());
  }
};

TEST_F(ReplayTeacherTest, AGroupIsUsedOnceItsScoresAreThereAndNoBatchWaitsForThem) {
  Make();
  Finish(1), Ask(0, 1);
  Settle();
  EXPECT_TRUE(Batches().empty());
  const auto late = Asked();
  ASSERT_EQ(late.size(), 2u);
  Teach(late[0], -0.25f);
  Finish(2);
  for (const auto& request : Asked()) Teach(request, -0.5f);
  Settle();
  // The second group is complete; the first lacks a member's scores.
  auto batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(Groups(batches[0]), std::set<uint64_t>{2});
  EXPECT_THAT(batches[0].samples(0).teacher(0).logprobs(), ElementsAre(-0.5f));
  Teach(late[1], -0.75f);
  Ask(1, 1);
  Settle();
  batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(Groups(batches[0]), std::set<uint64_t>{1});
  EXPECT_THAT(batches[0].samples(1).teacher(0).logprobs(), ElementsAre(-0.75f));
}

TEST_F(ReplayTeacherTest, ScoresThatComeTooLateDoNotMakeAnOldEpisodeYoung) {
  Make();
  Finish(1);  // drawn by version 1, of step 0; the bound is 2 steps
  const auto late = Asked();
  ASSERT_EQ(late.size(), 2u);
  for (const auto& request : late) Teach(request, -0.5f);
  Ask(5, 6);
  Settle();
  EXPECT_TRUE(Batches().empty());
  EXPECT_EQ(store_.fates[0], "too_old");
  EXPECT_TRUE(Reports().back().reissue());
}

TEST_F(ReplayTeacherTest, TheStoredIdsAreSentAsTheyAre) {
  Make();
  v1::Trajectory episode = Episode(1, 0, 1);
  episode.add_prompt_ids(2);
  episode.mutable_turns(0)->add_observation_ids(9);
  v1::Turn& turn = *episode.add_turns();
  turn.add_ids(4), turn.add_ids(5), turn.add_logprobs(-1), turn.add_logprobs(-1);
  v1::VersionRun& run = *turn.add_versions();
  run.set_version(1), run.set_tokens(2);
  v1::Turn& branch = *episode.add_turns();
  branch = turn;
  branch.add_prompt_ids(7);
  Send(episode);
  Settle();
  const auto asked = Asked();
  ASSERT_EQ(asked.size(), 1u);
  ASSERT_EQ(asked[0].sequences_size(), 2);
  EXPECT_THAT(asked[0].sequences(0).ids(), ElementsAre(1u, 2u, 3u, 9u, 4u, 5u));
  ASSERT_EQ(asked[0].sequences(0).spans_size(), 2);
  EXPECT_EQ(asked[0].sequences(0).spans(0).begin(), 2u);
  EXPECT_EQ(asked[0].sequences(0).spans(1).begin(), 4u);
  EXPECT_EQ(asked[0].sequences(0).spans(1).tokens(), 2u);
  EXPECT_THAT(asked[0].sequences(1).ids(), ElementsAre(7u, 4u, 5u));
  EXPECT_EQ(asked[0].sequences(1).spans(0).turn(), 2u);
}

TEST_F(ReplayTeacherTest, AnEpisodeThatTheTeacherCannotScoreIsStale) {
  Make();
  Finish(1);
  for (const auto& request : Asked()) Teach(request, 0, /*available=*/false);
  Ask(0, 1);
  Settle();
  EXPECT_TRUE(Batches().empty());
  EXPECT_EQ(store_.fates[0], "stale");
  EXPECT_EQ(replay_->counters().stale, 2u);
  EXPECT_TRUE(Reports().back().reissue());
}

TEST_F(ReplayTeacherTest, ScoresThatDoNotFitTheTurnsAreADeadLetterAndAskedForAgain) {
  Make();
  Send(Episode(1, 0, 1)), Settle();
  auto asked = Asked();
  ASSERT_EQ(asked.size(), 1u);
  Teach(asked[0], -0.5f, true, /*surplus=*/1);
  Settle();
  EXPECT_EQ(bus_.Depth(kDeadTopic)->ready, 1u);
  asked = Asked();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_THAT(asked[0].request_id(), HasSubstr(".t2@"));
}

TEST_F(ReplayTeacherTest, AResumedRunAsksForTheScoresOfWhatItHad) {
  Make(StoredGroup(7, 2));
  Ask(0, 1);
  Settle();
  EXPECT_TRUE(Batches().empty());
  const auto asked = Asked();
  ASSERT_EQ(asked.size(), 2u);
  for (const auto& request : asked) Teach(request, -0.5f);
  Settle();
  ASSERT_EQ(Batches().size(), 1u);
}

// Two turns: the first fails a test, the second is the answer.
class ReplayHintTest : public ReplayTeacherTest {
 protected:
  static v1::Trajectory FailedOnce() {
    v1::Trajectory episode = Episode(1, 0, 1);
    v1::Turn& turn = *episode.mutable_turns(0);
    turn.add_observation_ids(8), turn.add_observation_ids(9);
    v1::ToolCall& call = *turn.add_calls();
    call.set_tool("run_tests"), call.set_outcome(v1::OUTCOME_FAILED);
    call.set_tests_total(1);
    v1::Turn& second = *episode.add_turns();
    second = Episode(1, 0, 1).turns(0);
    return episode;
  }
};

TEST_F(ReplayHintTest, TheTeacherReadsTheErrorBeforeItScoresTheTurnThatCausedIt) {
  options_.hints = TeacherHints::kErrors;
  Make();
  Send(FailedOnce());
  Settle();
  const auto asked = Asked();
  ASSERT_EQ(asked.size(), 1u);
  ASSERT_EQ(asked[0].sequences_size(), 1);
  // prompt, the turn, what was said to it, and the turn once more
  EXPECT_THAT(asked[0].sequences(0).ids(), ElementsAre(1u, 3u, 8u, 9u, 3u));
  ASSERT_EQ(asked[0].sequences(0).spans_size(), 1);
  EXPECT_EQ(asked[0].sequences(0).spans(0).turn(), 0u);
  EXPECT_EQ(asked[0].sequences(0).spans(0).begin(), 4u);
}

TEST_F(ReplayHintTest, AnEpisodeWithoutAHintIsUsedWithoutScores) {
  options_.hints = TeacherHints::kErrors;
  Make();
  Finish(1), Ask(0, 1);
  Settle();
  EXPECT_TRUE(Asked().empty());
  const auto batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].samples(0).teacher_size(), 0);
}

TEST_F(ReplayHintTest, AFailureOfOursIsNoHint) {
  options_.hints = TeacherHints::kErrors;
  Make();
  v1::Trajectory episode = FailedOnce();
  v1::ToolCall& call = *episode.mutable_turns(0)->mutable_calls(0);
  call.set_outcome(v1::OUTCOME_UNAVAILABLE), call.set_tests_total(0);
  Send(episode);
  Settle();
  EXPECT_TRUE(Asked().empty());
}

// Judged, with the first turn bad for two reasons.
class ReplayJudgedHintTest : public ReplayHintTest {
 protected:
  void MakeJudged(TeacherHints hints) {
    options_.hints = hints;
    options_.hint_ids = [this](const v1::Task&, const std::string& hint) {
      read_.push_back(hint);
      return std::vector<int32_t>{static_cast<int32_t>(hint.size())};
    };
    Make();
    Send(FailedOnce());
    Settle();
    EXPECT_TRUE(Asked().empty());  // the verdict has the hint
    for (const Lease& lease : bus_.Receive(kScoreTopic, 10).value()) {
      Judge(lease.body);
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    Settle();
  }
  void Judge(const std::string& body) {
    v1::ScoreRequest request;
    ASSERT_TRUE(request.ParseFromString(body));
    v1::Verdict verdict;
    *verdict.mutable_id() = request.id();
    verdict.set_request_id(request.request_id()), verdict.set_token(request.token());
    verdict.set_scored(true);
    v1::RewardPart& part = *verdict.add_parts();
    part.set_scorer("judge");
    for (const uint32_t turn : {1u, 2u}) {
      v1::Judgement& judgement = *part.add_judgements();
      judgement.set_judge("j"), judgement.set_turn(turn);
      judgement.set_value(turn == 1 ? -1 : 1);
      for (const char* reason : {"short", "the longer", "short", "middle"}) {
        v1::JudgeVote& vote = *judgement.add_votes();
        vote.set_valid(true), vote.set_value(judgement.value()), vote.set_reason(reason);
      }
    }
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), verdict.SerializeAsString()).ok());
  }
  // The scores of the first turn, one for each hint.
  void Answer(const v1::TeacherRequest& request, const std::vector<float>& logprobs) {
    v1::TeacherAnswer answer;
    answer.set_request_id(request.request_id()), answer.set_token(request.token());
    answer.set_available(true);
    for (const float logprob : logprobs) answer.add_turns()->add_logprobs(logprob);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), answer.SerializeAsString()).ok());
  }
  std::vector<std::string> read_;
};

TEST_F(ReplayJudgedHintTest, TheLongestReasonAgainstTheTurnIsTheHint) {
  MakeJudged(TeacherHints::kJudge);
  const auto asked = Asked();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_THAT(read_, ElementsAre("the longer"));
  ASSERT_EQ(asked[0].sequences_size(), 1);
  EXPECT_THAT(asked[0].sequences(0).ids(), ElementsAre(1u, 3u, 10u, 3u));
}

TEST_F(ReplayJudgedHintTest, OfSeveralReasonsTheOneThatChangesTheScoresMostIsUsed) {
  MakeJudged(TeacherHints::kJudgeStrongest);
  const auto asked = Asked();
  ASSERT_EQ(asked.size(), 1u);
  // A reason that two votes gave is read once.
  EXPECT_THAT(read_, ElementsAre("the longer", "middle", "short"));
  ASSERT_EQ(asked[0].sequences_size(), 3);
  EXPECT_THAT(asked[0].sequences(0).ids(), ElementsAre(1u, 3u, 10u, 3u));
  EXPECT_THAT(asked[0].sequences(2).ids(), ElementsAre(1u, 3u, 5u, 3u));
  Answer(asked[0], {-1.5f, -9.0f, -2.0f});  // the sampler's is -0.5
  Send(Episode(1, 1, 1));
  Settle(), Score(), Ask(0, 1), Settle();
  const auto batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  ASSERT_EQ(batches[0].samples(0).teacher_size(), 1);
  EXPECT_THAT(batches[0].samples(0).teacher(0).logprobs(), ElementsAre(-9.0f));
}

TEST_F(ReplayJudgedHintTest, MoreScoresOfATurnThanReasonsAreReadAreADeadLetter) {
  MakeJudged(TeacherHints::kJudgeStrongest);
  const auto asked = Asked();
  ASSERT_EQ(asked.size(), 1u);
  Answer(asked[0], {-1, -1, -1, -1, -1});
  Settle();
  EXPECT_EQ(bus_.Depth(kDeadTopic)->ready, 1u);
}

}  // namespace
}  // namespace tidemill
