#include "rollout/team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rollout/episode.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TeamPlan PlanOf(TeamKind kind, const std::vector<std::string>& roles) {
  TeamPlan plan{.kind = kind, .seats = {}, .order = {}};
  for (const std::string& role : roles) {
    const uint32_t number = static_cast<uint32_t>(plan.seats.size()) + 1;
    plan.order.push_back(plan.seats.size());
    plan.seats.push_back({.role = role, .policy = RolePolicy{PolicyId{number}, "of " + role}});
  }
  return plan;
}

// Who works after whom, where each gives what is in `answers`, until the end.
std::vector<size_t> SeatsOf(TeamPlay& play, const std::vector<std::string>& answers) {
  std::vector<size_t> seats = {play.seat()};
  for (const std::string& answer : answers) {
    const Result<TeamNext> next = play.After(answer);
    if (!next.ok() || next->over) break;
    seats.push_back(next->seat);
  }
  return seats;
}

TEST(TeamPlay, AChainGoesThroughItsRolesAndARoleThatIsThereAgainGoesOn) {
  TeamPlan plan = PlanOf(TeamKind::kChain, {"planner", "coder"});
  plan.order = {0, 1, 0};
  TeamPlay play(plan);
  EXPECT_FALSE(play.Submits(0));
  EXPECT_EQ(play.After("a plan")->given, "a plan");
  EXPECT_TRUE(play.ComesBack(0));
  EXPECT_EQ(play.After("code")->seat, 0u);
  EXPECT_TRUE(play.Submits(0));
  EXPECT_TRUE(play.After("done")->over);
  EXPECT_EQ(plan.visits(), 3u);
}

TEST(TeamPlay, AReviewEndsAfterItsRoundsOrWhenItIsAccepted) {
  TeamPlan plan = PlanOf(TeamKind::kReview, {"coder", "reviewer"});
  plan.rounds = 2;
  plan.accept = "fine";
  TeamPlay all(plan);
  EXPECT_THAT(SeatsOf(all, {"a", "no", "b", "no", "c"}), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_TRUE(all.Submits(0));
  EXPECT_FALSE(all.Submits(1));
  TeamPlay accepted(plan);
  EXPECT_THAT(SeatsOf(accepted, {"a", "fine, thanks", "b"}), ElementsAre(0, 1));
}

TEST(TeamPlay, AVoteShowsAllAnswersToTheOneWhoChooses) {
  const TeamPlan plan = PlanOf(TeamKind::kVote, {"coder", "coder", "judge"});
  TeamPlay play(plan);
  EXPECT_EQ(play.After("one")->given, "") << "the second knows nothing of the first";
  const TeamNext last = play.After("two").value();
  EXPECT_EQ(last.seat, 2u);
  EXPECT_EQ(last.given, "Answer 1:\none\nAnswer 2:\ntwo\n");
  TeamPlay other = play;
  EXPECT_EQ(*play.After("The 2nd is right, not 1")->chosen, 1u);
  EXPECT_THAT(other.After("answer 3").status().message(), HasSubstr("from 1 to 2"));
}

TEST(TaskForSeat, ShowsWhatTheRoleMaySeeAndNoMore) {
  v1::Task task;
  task.set_prompt("Sort {given}");
  task.set_answer_file("a.c");
  task.add_files()->set_path("a.c");
  const TeamSeat blind{.role = "coder", .prompt = "Do it: {given}.", .shows_files = true};
  const v1::Task own = TaskFor(blind, true, task, "{task}");
  EXPECT_EQ(own.prompt(), "Do it: {task}.") << "what is put in names no place";
  EXPECT_EQ(own.answer_file(), "a.c");
  const TeamSeat plain{.role = "planner", .shows_files = false};
  const v1::Task first = TaskFor(plain, false, task, "");
  EXPECT_EQ(first.prompt(), "Sort {given}");
  EXPECT_EQ(first.answer_file(), "");
  EXPECT_EQ(first.prompt_files(), v1::Task::PROMPT_FILES_NONE);
}

// A token n is the answer "n"; 9 is malformed.
class TeamTalk final : public EpisodeTalk {
 public:
  TeamTalk(const v1::Task& task, std::vector<std::string>& heard) : task_(task), heard_(heard) {}
  Result<std::vector<TokenId>> Open() const override {
    heard_.push_back(task_.prompt());
    return std::vector<TokenId>{5, 5};
  }
  ParsedTurn Parse(std::span<const TokenId> ids) override {
    ParsedTurn turn;
    turn.text = std::to_string(ids[0]);
    if (ids[0] == 9) {
      turn.malformed = "nonsense";
    } else {
      turn.answer = turn.text;
    }
    return turn;
  }
  Result<NextPrompt> Observe(const ParsedTurn&, const TurnReplies&, size_t) override {
    return NextPrompt{.ids = {6}};
  }
  Result<NextPrompt> Hear(const std::string& given) override {
    heard_.push_back(given);
    return NextPrompt{.ids = {7}};
  }

 private:
  const v1::Task& task_;
  std::vector<std::string>& heard_;
};

class TeamProtocol final : public AgentProtocol {
 public:
  std::string_view name() const override { return "team"; }
  const std::vector<TokenId>& stop_ids() const override { return stop_; }
  bool ChecksAnswers() const override { return false; }
  std::unique_ptr<EpisodeTalk> Begin(const EpisodeOpening& opening) const override {
    return std::make_unique<TeamTalk>(opening.task, heard);
  }
  mutable std::vector<std::string> heard;

 private:
  std::vector<TokenId> stop_ = {0};
};

class TeamEpisode : public testing::Test {
 protected:
  Episode Make(const TeamPlan& plan) {
    auto group = std::make_shared<EpisodeGroup>();
    group->lease.set_group(7);
    group->lease.set_members(2);
    group->lease.set_max_turns(2);
    group->lease.mutable_sampling()->set_temperature(1);
    group->lease.mutable_task()->set_id("t");
    group->lease.mutable_task()->set_prompt("task");
    group->lease.mutable_task()->set_answer_file("a.c");
    group->prompt = {5, 5};
    group->max_context = 100;
    group->team = &plan;
    return Episode(group, 1, protocol_, limits_, 1000);
  }
  static TurnOutput Says(TokenId token) {
    TurnOutput output;
    output.ids = {token, 0};
    output.logprobs = {-0.5f, -0.1f};
    output.versions = {{4, 2}};
    return output;
  }

  TeamProtocol protocol_;
  EpisodeLimits limits_;
};

TEST_F(TeamEpisode, OfAChainHasATurnOfEachRoleInItsOwnConversation) {
  TeamPlan plan = PlanOf(TeamKind::kChain, {"planner", "coder"});
  plan.seats[1].prompt = "Do {given}";
  Episode episode = Make(plan);
  const EpisodeActions first = episode.Begin(1000);
  EXPECT_EQ(first.policy, PolicyId{1});
  const EpisodeActions second = episode.OnTurn(Says(3), 1001);
  ASSERT_TRUE(second.generate);
  EXPECT_EQ(second.seat, 1u);
  EXPECT_EQ(second.policy, PolicyId{2});
  EXPECT_TRUE(second.anew) << "a new role begins its own sequence";
  EXPECT_EQ(second.leaves, std::optional<size_t>(0));
  EXPECT_NE(first.turn.seed, second.turn.seed);
  EXPECT_EQ(protocol_.heard.back(), "Do 3");
  EXPECT_TRUE(episode.OnTurn(Says(4), 1002).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  ASSERT_EQ(trajectory.turns_size(), 2);
  EXPECT_EQ(trajectory.turns(0).role(), "planner");
  EXPECT_EQ(trajectory.turns(0).policy(), "of planner");
  EXPECT_EQ(trajectory.turns(0).prompt_ids_size(), 0);
  EXPECT_EQ(trajectory.turns(0).observation_ids_size(), 0);
  EXPECT_EQ(trajectory.turns(1).role(), "coder");
  EXPECT_EQ(trajectory.turns(1).policy(), "of coder");
  EXPECT_EQ(trajectory.turns(1).prompt_ids_size(), 2);
  EXPECT_EQ(trajectory.submission(), "4") << "the last one's answer counts";
}

TEST_F(TeamEpisode, OfAReviewGoesOnInTheSequenceOfWhoWorks) {
  const TeamPlan plan = PlanOf(TeamKind::kReview, {"coder", "reviewer"});
  Episode episode = Make(plan);
  episode.Begin(1000);
  EXPECT_FALSE(episode.OnTurn(Says(3), 1001).leaves);
  const EpisodeActions again = episode.OnTurn(Says(8), 1002);
  EXPECT_EQ(again.seat, 0u);
  EXPECT_FALSE(again.anew);
  EXPECT_THAT(again.append, ElementsAre(7));
  EXPECT_EQ(protocol_.heard.back(), "8");
  EXPECT_TRUE(episode.OnTurn(Says(4), 1003).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  ASSERT_EQ(trajectory.turns_size(), 3);
  EXPECT_THAT(trajectory.turns(0).observation_ids(), ElementsAre(7)) << "behind its own turn";
  EXPECT_EQ(trajectory.turns(1).observation_ids_size(), 0);
  EXPECT_EQ(trajectory.turns(2).prompt_ids_size(), 0);
  EXPECT_EQ(trajectory.submission(), "4");
  EXPECT_EQ(trajectory.end(), v1::EPISODE_END_SUBMITTED);
}

TEST_F(TeamEpisode, OfAVoteTakesTheChosenAnswerAndNoOther) {
  const TeamPlan plan = PlanOf(TeamKind::kVote, {"coder", "coder", "judge"});
  Episode episode = Make(plan);
  episode.Begin(1000);
  episode.OnTurn(Says(3), 1001);
  episode.OnTurn(Says(4), 1002);
  EXPECT_TRUE(episode.OnTurn(Says(1), 1003).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  EXPECT_EQ(trajectory.submission(), "3");
  ASSERT_EQ(trajectory.tree().files_size(), 1);
  EXPECT_EQ(trajectory.tree().files(0).content(), "3");
  Episode undecided = Make(plan);
  undecided.Begin(1000);
  undecided.OnTurn(Says(3), 1001);
  undecided.OnTurn(Says(4), 1002);
  EXPECT_TRUE(undecided.OnTurn(Says(8), 1003).finished);
  EXPECT_EQ(undecided.TakeTrajectory().end(), v1::EPISODE_END_MALFORMED);
}

TEST_F(TeamEpisode, GivesEachRoleItsTurnsAndEndsWithTheOneThatHasNoAnswer) {
  const TeamPlan plan = PlanOf(TeamKind::kChain, {"planner", "coder"});
  Episode episode = Make(plan);
  episode.Begin(1000);
  EXPECT_FALSE(episode.OnTurn(Says(9), 1001).finished) << "it may try again";
  EXPECT_EQ(episode.OnTurn(Says(3), 1002).seat, 1u);
  EXPECT_FALSE(episode.OnTurn(Says(9), 1003).finished) << "the coder has two turns as well";
  EXPECT_TRUE(episode.OnTurn(Says(9), 1004).finished);
  const v1::Trajectory trajectory = episode.TakeTrajectory();
  EXPECT_EQ(trajectory.turns_size(), 4);
  EXPECT_EQ(trajectory.end(), v1::EPISODE_END_MALFORMED);
}

}  // namespace
}  // namespace tidemill
