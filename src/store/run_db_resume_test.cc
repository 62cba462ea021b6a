#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "store/run_db.h"
#include "store/run_reader.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ResumeTest : public testing::Test {
 protected:
  void Put(StoreOp op) {
    const Status status = db_->ApplyOne(op);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void PutSample(uint64_t group, uint32_t member, v1::Purpose purpose = v1::PURPOSE_TRAIN) {
    v1::Trajectory t = SampleTrajectory(SampleId(group, member));
    t.set_purpose(purpose);
    Put(PutTrajectory{t});
  }
  ResumeState Load(uint32_t max_uses = 1) {
    auto state = db_->LoadForResume(max_uses);
    TM_CHECK(state.ok(), state.status().ToString());
    return std::move(*state);
  }
  std::set<uint64_t> LoadedGroups(uint32_t max_uses = 1) {
    std::set<uint64_t> groups;
    for (const auto& stored : Load(max_uses).trajectories) {
      groups.insert(stored.trajectory.id().group());
    }
    return groups;
  }

  TemporaryDirectory dir_;
  std::unique_ptr<RunDb> db_ = OpenDb(dir_ / "run.db");
};

TEST_F(ResumeTest, ANewRunBeginsAtOne) {
  const ResumeState state = Load();
  EXPECT_EQ(state.next_group, 1U);
  EXPECT_EQ(state.next_version, 1U);
  EXPECT_EQ(state.last_step, 0U);
  EXPECT_EQ(state.cursor, "");
  EXPECT_FALSE(state.checkpoint);
  EXPECT_TRUE(state.trajectories.empty());
}

TEST_F(ResumeTest, StepsAndVersionsAreThoseOfTheirPolicies) {
  Put(ReserveVersion{0, {"", 0}});
  Put(ReserveVersion{0, {"coder", 0}});
  Put(PutStep{1, 3, {}, "{}", {"coder", 1}});
  Put(PutStep{2, 4, {}, "{}", {"planner", 1}});
  Put(PutStep{3, 5, {}, "{}", {"coder", 2}});
  using Steps = std::map<std::string, uint64_t>;
  EXPECT_EQ(Load().policy_steps, (Steps{{"coder", 2}, {"planner", 1}}));
  ASSERT_TRUE(db_->ResumeFrom(2).ok());
  const ResumeState state = Load();
  EXPECT_EQ(state.policy_steps, (Steps{{"coder", 1}, {"planner", 1}}));
  ASSERT_EQ(state.versions.size(), 5u) << "numbers stay taken";
  EXPECT_EQ(state.versions[0].policy, "");
  EXPECT_EQ(state.versions[3].policy, "planner");
  EXPECT_EQ(state.versions[4].policy, "coder");
  EXPECT_EQ(state.versions[4].policy_step, 2u) << "its own, not the run's";
  const auto owned = RunReader::Open(dir_ / "run.db").value()->OwnedSteps().value();
  ASSERT_EQ(owned.size(), 2u);
  EXPECT_EQ(owned[1].policy, "planner");
}

TEST_F(ResumeTest, OnlyWhatCanStillBeTrainedOnIsLoaded) {
  for (uint64_t group = 1; group <= 6; ++group) PutSample(group, 0);
  PutSample(7, 0, v1::PURPOSE_EVAL);
  Put(PutVerdict{SampleVerdict(SampleId(2, 0), 0.5)});
  Put(PutFate{SampleId(3, 0), Fate::kReady, ""});
  Put(PutFate{SampleId(4, 0), Fate::kStale, "lag"});
  Put(PutFate{SampleId(5, 0), Fate::kTooOld, ""});
  Put(PutStep{1, 2, {SampleId(6, 0)}, "{}"});
  Put(PutFate{SampleId(6, 0), Fate::kUsed, ""});
  EXPECT_EQ(LoadedGroups(), (std::set<uint64_t>{1, 2, 3}));
  EXPECT_EQ(LoadedGroups(/*max_uses=*/2), (std::set<uint64_t>{1, 2, 3, 6}));
  const ResumeState state = Load(2);
  EXPECT_FALSE(state.trajectories[0].verdict);
  EXPECT_EQ(state.trajectories[1].verdict->reward(), 0.5);
  EXPECT_EQ(state.trajectories[2].fate, "ready");
  EXPECT_EQ(state.trajectories[3].uses, 1U);
}

TEST_F(ResumeTest, GroupsAreLoadedWholeUnlessTheyWereDropped) {
  for (uint64_t group = 1; group <= 3; ++group) {
    Put(SampleGroup(group, "c"));
    for (uint32_t member = 0; member < 2; ++member) PutSample(group, member);
  }
  Put(SampleReport(1, 1, 4, 0));
  Put(PutFate{SampleId(1, 1), Fate::kStale, "unscorable"});
  Put(SampleReport(2, 1, 4, 0));
  Put(SampleReport(2, 2, 0, 4));  // evicted; a crash came before its fates were written
  for (uint32_t member = 0; member < 2; ++member)
    Put(PutFate{SampleId(3, member), Fate::kStale, ""});  // and before its report, here
  const ResumeState state = Load();
  std::map<std::pair<uint64_t, uint32_t>, std::string> fates;
  for (const ResumeState::Stored& stored : state.trajectories)
    fates[{stored.trajectory.id().group(), stored.trajectory.id().member()}] = stored.fate;
  const std::map<std::pair<uint64_t, uint32_t>, std::string> expected = {
      {{1, 0}, "stored"}, {{1, 1}, "stale"}, {{3, 0}, "stale"}, {{3, 1}, "stale"}};
  EXPECT_EQ(fates, expected);
}

TEST_F(ResumeTest, WhatLaterStepsUsedIsUnusedAgain) {
  for (uint64_t group = 1; group <= 4; ++group) PutSample(group, 0);
  Put(PutStep{1, 1, {SampleId(1, 0)}, "{}"});
  Put(PutStep{2, 2, {SampleId(2, 0)}, "{}"});
  Put(PutStep{3, 3, {SampleId(3, 0)}, "{}"});
  Put(PutFate{SampleId(2, 0), Fate::kUsed, ""});
  Put(PutFate{SampleId(3, 0), Fate::kEvicted, "used up"});
  Put(PutCheckpoint{1, 1, "checkpoints/step-1"});
  Put(PutCheckpoint{3, 3, "checkpoints/step-3"});
  EXPECT_EQ(LoadedGroups(), (std::set<uint64_t>{4}));
  ASSERT_TRUE(db_->ResumeFrom(1).ok());
  EXPECT_EQ(LoadedGroups(), (std::set<uint64_t>{2, 3, 4}));
  const ResumeState state = Load();
  EXPECT_EQ(state.last_step, 1U);
  EXPECT_EQ(state.last_version, 1U);
  EXPECT_EQ(state.checkpoint->path, "checkpoints/step-1");
  EXPECT_EQ(state.next_version, 4U) << "a version of an abandoned step is given again";
}

TEST_F(ResumeTest, TheStepsAreDoneAgainAndNothingIsUsedTooOften) {
  for (uint64_t group = 1; group <= 3; ++group) PutSample(group, 0);
  Put(PutStep{1, 1, {SampleId(1, 0)}, "{\"line\":1}"});
  for (int resume = 0; resume < 3; ++resume) {
    Put(PutStep{2, 10, {SampleId(2, 0)}, "{\"line\":2}"});
    ASSERT_TRUE(db_->ResumeFrom(1).ok());
  }
  Put(PutStep{2, 20, {SampleId(3, 0)}, "{\"line\":3}"});
  EXPECT_EQ(LoadedGroups(), (std::set<uint64_t>{2}));
  auto reader = RunReader::Open(dir_ / "run.db");
  ASSERT_TRUE(reader.ok());
  const auto steps = (*reader)->Steps(0, 10);
  ASSERT_EQ(steps->size(), 2U);
  EXPECT_EQ((*steps)[1].metrics_json, "{\"line\":3}");
  EXPECT_EQ((*steps)[1].used, 1U);
  const auto counts = (*reader)->Counts();
  EXPECT_EQ(counts->steps, 2U);
  EXPECT_EQ(counts->steps_abandoned, 3U) << "what was abandoned is kept";
  EXPECT_EQ(counts->resumes, 3U);
  EXPECT_EQ((*reader)->Episode(2, 0)->row.uses, 0U);
  EXPECT_THAT((*reader)->Episode(2, 0)->used_by, IsEmpty());
}

TEST_F(ResumeTest, AStepThatWasNeverDoneCannotBeResumedFrom) {
  PutSample(1, 0);
  Put(PutStep{1, 1, {SampleId(1, 0)}, "{}"});
  const Status status = db_->ResumeFrom(2);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("the last step on record is 1"));
  EXPECT_TRUE(db_->ResumeFrom(0).ok()) << "from the beginning";
  EXPECT_EQ(Load().last_step, 0U);
}

TEST_F(ResumeTest, TheLedgerSaysWhichGroupsAreOutstanding) {
  for (uint64_t group = 1; group <= 4; ++group) {
    Put(SampleGroup(group, "after-" + std::to_string(group)));
  }
  Put(SampleReport(1, 1, 4, 0));  // final
  Put(SampleReport(2, 1, 1, 2));  // one of four is missing
  PutSample(2, 0);
  PutSample(2, 3);
  PutGroupReport again = SampleReport(4, 1, 0, 4);
  again.report.set_reissue(true);
  Put(again);
  const ResumeState state = Load();
  ASSERT_EQ(state.outstanding.size(), 2U);
  EXPECT_EQ(state.outstanding[0].group.group(), 2U);
  EXPECT_EQ(state.outstanding[0].report.dropped(), 2U);
  EXPECT_THAT(state.outstanding[0].stored_members, ElementsAre(0, 3));
  EXPECT_EQ(state.outstanding[1].group.group(), 3U);
  EXPECT_EQ(state.outstanding[1].report.revision(), 0U);
  ASSERT_EQ(state.to_reissue.size(), 1U);
  EXPECT_EQ(state.to_reissue[0].group(), 4U);
  EXPECT_EQ(state.next_group, 5U);
  EXPECT_EQ(state.cursor, "after-4");
  EXPECT_EQ(state.accepted, 5U);
  EXPECT_EQ(state.dropped, 6U);
}

TEST_F(ResumeTest, ATrajectoryComesWithTheRevisionOfTheReportOnItsGroup) {
  Put(SampleGroup(1, "a"));
  PutSample(1, 0);
  ASSERT_EQ(Load().trajectories.size(), 1U);
  EXPECT_EQ(Load().trajectories[0].revision, 0U);
  Put(SampleReport(1, 3, 4, 0));
  ASSERT_EQ(Load().trajectories.size(), 1U);
  EXPECT_EQ(Load().trajectories[0].revision, 3U);
}

TEST_F(ResumeTest, ATaskThatWasAttemptedAgainIsNotReissued) {
  Put(SampleGroup(4, "a"));
  PutGroupReport again = SampleReport(4, 1, 0, 4);
  again.report.set_reissue(true);
  Put(again);
  Put(SampleGroup(11, "b"));  // 11 mod 7: the same task
  EXPECT_TRUE(Load().to_reissue.empty());
}

// A random history of steps and resumes against a model of what should remain.
TEST_F(ResumeTest, RandomHistoriesKeepEveryTrajectoryWithinItsUses) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TemporaryDirectory dir;
    db_ = OpenDb(dir / "run.db");
    Random random(seed);
    const uint32_t max_uses = 1 + static_cast<uint32_t>(random.Below(2));
    std::vector<std::vector<uint64_t>> line;  // groups used by each step
    uint64_t groups = 0;
    for (int event = 0; event < 40; ++event) {
      if (random.Chance(0.1)) {
        line.resize(random.Below(line.size() + 1));
        ASSERT_TRUE(db_->ResumeFrom(line.size()).ok());
      }
      PutSample(++groups, 0);
      const ResumeState state = Load(max_uses);
      PutStep step;
      step.step = line.size() + 1;
      auto& used = line.emplace_back();
      for (const auto& stored : state.trajectories) {
        if (!random.Chance(0.4)) continue;
        step.used.push_back(stored.trajectory.id());
        used.push_back(stored.trajectory.id().group());
      }
      Put(step);
    }
    std::map<uint64_t, uint32_t> uses;
    for (const auto& step : line) {
      for (uint64_t group : step) ++uses[group];
    }
    std::set<uint64_t> expected;
    for (uint64_t group = 1; group <= groups; ++group) {
      ASSERT_LE(uses[group], max_uses);
      if (uses[group] < max_uses) expected.insert(group);
    }
    EXPECT_EQ(LoadedGroups(max_uses), expected);
  }
}

}  // namespace
}  // namespace tidemill
