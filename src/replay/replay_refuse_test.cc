// What replay does with messages that cannot be right: a dead letter each, and nothing else is
// disturbed.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/journal.h"
#include "testing/bus_test_kit.h"
#include "testing/replay_fixture.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

class ReplayRefuses : public ReplayTest {
 protected:
  ReplayRefuses() { options_.limits.vocabulary = 100; }

  std::vector<std::string> Reasons() { return TakeDeadLetterReasons(bus_); }
};

struct Wrong {
  const char* reason;
  std::function<void(v1::Trajectory&)> make;
};

const float kNan = std::numeric_limits<float>::quiet_NaN();

const Wrong kWrong[] = {
    {"logprobs[0]: nan", [](v1::Trajectory& t) { t.mutable_turns(0)->set_logprobs(0, kNan); }},
    {"logprobs[0]: -1.0", [](v1::Trajectory& t) { t.mutable_turns(0)->set_logprobs(0, -1e30f); }},
    {"logprobs: 2 for 1", [](v1::Trajectory& t) { t.mutable_turns(0)->add_logprobs(-1); }},
    {"ids[0]: 100 is", [](v1::Trajectory& t) { t.mutable_turns(0)->set_ids(0, 100); }},
    {"prompt_ids[0]", [](v1::Trajectory& t) { t.set_prompt_ids(0, 4294967295u); }},
    {"prompt_ids: must", [](v1::Trajectory& t) { t.clear_prompt_ids(); }},
    {"versions: of 7 tokens",
     [](v1::Trajectory& t) { t.mutable_turns(0)->mutable_versions(0)->set_tokens(7); }},
    {"version 10 was not published; the newest is 9",
     [](v1::Trajectory& t) { t.mutable_turns(0)->mutable_versions(0)->set_version(10); }},
    {"end", [](v1::Trajectory& t) { t.clear_end(); }},
    {"files[0].path",
     [](v1::Trajectory& t) { t.mutable_tree()->add_files()->set_path("../etc/passwd"); }},
    {"tests_passed: 3 of 2",
     [](v1::Trajectory& t) {
       v1::ToolCall& call = *t.mutable_turns(0)->add_calls();
       call.set_tests_passed(3), call.set_tests_total(2);
     }},
};

TEST_F(ReplayRefuses, AMemberThatCannotBeUsedIsADeadLetterAndItsGroupComesToAnEnd) {
  options_.limits.members = 4;
  Make();
  uint64_t group = 0;
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(wrong.reason);
    v1::Trajectory bad = Episode(++group, 0, 1);
    wrong.make(bad);
    Send(bad), Send(Episode(group, 1, 1));
    Settle(), Score(), Settle();
    EXPECT_THAT(Reasons(), ::testing::ElementsAre(HasSubstr(wrong.reason)));
    const std::vector<v1::GroupReport> reports = Reports();
    ASSERT_EQ(reports.size(), 1u) << "the credit must return";
    EXPECT_EQ(reports[0].dropped(), 2u);
    EXPECT_TRUE(reports[0].reissue());
  }
  Finish(++group);
  EXPECT_EQ(Reports().at(0).accepted(), 2u) << "the next group is as if nothing had been";
  EXPECT_EQ(replay_->counters().refused, std::size(kWrong));
}

TEST_F(ReplayRefuses, WhoDoesNotHoldTheLeaseCannotSpeakForTheGroup) {
  Make();
  const std::vector<std::function<void(v1::Trajectory&)>> forged = {
      [](v1::Trajectory& t) { t.clear_token(); },
      [](v1::Trajectory& t) { t.set_token(std::string(32, '0')); },
      [](v1::Trajectory& t) { t.mutable_id()->set_group(77); },
      [](v1::Trajectory& t) { t.mutable_id()->set_task("another"); },
      [](v1::Trajectory& t) { t.set_group_members(4294967295u); },
      [](v1::Trajectory& t) { t.set_purpose(v1::PURPOSE_EVAL); },
      [](v1::Trajectory& t) { t.mutable_sampling()->set_temperature(1e-30); },
  };
  for (const auto& forge : forged) {
    v1::Trajectory trajectory = Episode(1, 0, 1);
    trajectory.set_token(GroupToken(kSecret, trajectory));
    forge(trajectory);
    SendAsIs(trajectory);
    Settle();
    EXPECT_THAT(Reasons(), ::testing::ElementsAre(HasSubstr("not the token of a lease on group")));
  }
  EXPECT_EQ(replay_->counters().stored, 0u);
  Finish(1);
  EXPECT_EQ(Reports().at(0).accepted(), 2u) << "the one who holds the lease is heard";
}

TEST_F(ReplayRefuses, BytesThatAreNoTrajectoryAreADeadLetter) {
  Make();
  EXPECT_TRUE(bus_.Publish(kTrajectoriesTopic, "\xff\xff garbage").ok());
  Settle();
  EXPECT_THAT(Reasons(), ::testing::ElementsAre("not a Trajectory"));
}

TEST_F(ReplayRefuses, AVersionIsTakenOnceTheLearnerToldOfIt) {
  Make();
  Publish(10, 9);
  Finish(1, 10);
  EXPECT_EQ(Reports().at(0).accepted(), 2u);
  EXPECT_TRUE(Batches().empty()) << "nobody asked for one";
}

TEST_F(ReplayRefuses, AVerdictThatIsNoNumberIsADeadLetterAndAskedForAgain) {
  for (double reward : {std::nan(""), HUGE_VAL, 1e30}) {
    Make();
    Send(Episode(1, 0, 1));
    Settle();
    const std::vector<Lease> asked = bus_.Receive(kScoreTopic, 10).value();
    ASSERT_EQ(asked.size(), 1u);
    v1::ScoreRequest request;
    ASSERT_TRUE(request.ParseFromString(asked[0].body));
    v1::Verdict verdict;
    *verdict.mutable_id() = request.id();
    verdict.set_request_id(request.request_id());
    verdict.set_token(request.token());
    verdict.set_scored(true), verdict.set_reward(reward);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), verdict.SerializeAsString()).ok());
    EXPECT_TRUE(bus_.Ack(asked[0]).ok());
    Settle();
    EXPECT_THAT(Reasons(), ::testing::ElementsAre(HasSubstr("Verdict.reward")));
    const std::vector<Lease> again = bus_.Receive(kScoreTopic, 10).value();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_TRUE(bus_.Ack(again[0]).ok());
    EXPECT_EQ(replay_->counters().waiting_verdicts, 1u);
    store_.stored.clear();
  }
}

TEST_F(ReplayRefuses, AVerdictOfOneWhoWasNotAskedIsADeadLetterAndTheTrueOneCounts) {
  Make();
  Send(Episode(1, 0, 1)), Send(Episode(1, 1, 1));
  Settle();
  for (const Lease& lease : bus_.Receive(kScoreTopic, 10).value()) {
    v1::ScoreRequest request;
    ASSERT_TRUE(request.ParseFromString(lease.body));
    v1::Verdict verdict;
    *verdict.mutable_id() = request.id();
    verdict.set_request_id(request.request_id());  // can be guessed
    verdict.set_scored(true), verdict.set_reward(1000);
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), verdict.SerializeAsString()).ok());
    EXPECT_TRUE(bus_.Release(lease, Duration(0)).ok());
  }
  Settle();
  EXPECT_EQ(Reasons().size(), 2u);
  Score(), Settle();
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].reward_sum(), 1);
}

class WarningJournal final : public Journal {
 public:
  void Record(std::string_view kind, const Numbers&, const Words& words) override {
    if (kind == "warning") warnings.push_back(words.at("what"));
  }
  std::vector<std::string> warnings;
};

TEST_F(ReplayRefuses, WhatIsStoredAndCannotBeUsedIsPutAsideWithAWarning) {
  WarningJournal journal;
  std::vector<StoredSample> stored = StoredGroup(5, 3);
  stored[1].trajectory.mutable_turns(0)->set_logprobs(0, kNan);
  stored[2].verdict->add_turn_rewards(std::nan(""));
  std::vector<StoredSample> lost = StoredGroup(6, 2);
  for (StoredSample& sample : lost) {
    sample.unusable = "no such group was issued";
    sample.issued = false;
  }
  for (StoredSample& sample : lost) stored.push_back(std::move(sample));
  replay_ = std::make_unique<ReplayLoop>(bus_, store_, clock_, journal, book_, options_, stored);
  replay_->Attach(waker_);
  Settle(), Score(), Settle();
  ASSERT_EQ(journal.warnings.size(), 3u);
  EXPECT_THAT(journal.warnings[0], HasSubstr("t/5/1#1 put aside: Trajectory.turns[0].logprobs[0]"));
  EXPECT_THAT(journal.warnings[1], HasSubstr("t/6/0#1 put aside: no such group was issued"));
  EXPECT_EQ(store_.fates.at(1), "stale");
  for (const v1::GroupReport& report : Reports()) EXPECT_EQ(report.group(), 5u);
  Ask(0, 1, 3), Settle();
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u) << "what is left of the group is used";
  EXPECT_EQ(batches[0].samples_size(), 2);
}

}  // namespace
}  // namespace tidemill
