#include "store/run_db.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "store/run_reader.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class RunDbTest : public testing::Test {
 protected:
  std::unique_ptr<RunReader> Reader() {
    auto reader = RunReader::Open(dir_ / "run.db");
    TM_CHECK(reader.ok(), reader.status().ToString());
    return std::move(*reader);
  }
  Status Put(StoreOp op) { return db_->ApplyOne(op); }
  void PutSample(uint64_t group, uint32_t member) {
    ASSERT_TRUE(Put(PutTrajectory{SampleTrajectory(SampleId(group, member))}).ok());
  }

  TemporaryDirectory dir_;
  std::unique_ptr<RunDb> db_ = OpenDb(dir_ / "run.db");
};

TEST_F(RunDbTest, WhatIsReleasedIsTheStateThatWasStoredLast) {
  EXPECT_FALSE(*db_->LoadRelease()) << "nothing was released yet";
  for (const uint64_t version : {3, 8}) {
    PutRelease put;
    put.state.mutable_released()->set_version(version);
    ASSERT_TRUE(Put(put).ok());
  }
  db_.reset();
  db_ = OpenDb(dir_ / "run.db");
  const auto state = db_->LoadRelease();
  ASSERT_TRUE(state.ok() && *state);
  EXPECT_EQ((*state)->released().version(), 8u);
}

TEST_F(RunDbTest, ATrajectoryComesBackAsItWas) {
  v1::Trajectory put = SampleTrajectory(SampleId(3, 1), 2000, 5);
  v1::Turn& turn = *put.add_turns();
  turn.add_ids(1), turn.add_logprobs(-0.5F), turn.add_calls()->set_tool("compile");
  turn.add_versions()->set_version(9), turn.mutable_versions(0)->set_tokens(1);
  ASSERT_TRUE(Put(PutTrajectory{put}).ok());
  const auto got = Reader()->Episode(3, 1);
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(got->trajectory.SerializeAsString(), put.SerializeAsString());
  EXPECT_FALSE(got->verdict);
  EXPECT_EQ(got->row.task, "task-3");
  EXPECT_EQ(got->row.tokens, 2001U);
  EXPECT_EQ(got->row.turns, 2U);
  EXPECT_EQ(got->row.tool_calls, 1U);
  EXPECT_EQ(got->row.min_version, 5U);
  EXPECT_EQ(got->row.max_version, 9U);
  EXPECT_EQ(got->row.fate, "stored");
  EXPECT_FALSE(got->row.scored);
  EXPECT_FALSE(got->row.reward);
}

TEST_F(RunDbTest, TheSecondAttemptOfAMemberIsRefusedAndTheFirstStays) {
  PutSample(3, 1);
  EXPECT_EQ(Put(PutTrajectory{SampleTrajectory(SampleId(3, 1))}).code(), Code::kExists);
  const Status second = Put(PutTrajectory{SampleTrajectory(SampleId(3, 1, 2), 99)});
  EXPECT_EQ(second.code(), Code::kExists);
  EXPECT_THAT(second.message(), HasSubstr("task-3/3/1#2"));
  EXPECT_THAT(second.message(), HasSubstr("attempt 1"));
  EXPECT_EQ(Reader()->Episode(3, 1)->row.tokens, 8U);
}

TEST_F(RunDbTest, WhatIsWrongInATrajectoryIsNamed) {
  v1::Trajectory t = SampleTrajectory(SampleId(1, 0));
  t.set_purpose(v1::PURPOSE_UNSPECIFIED);
  EXPECT_THAT(Put(PutTrajectory{t}).message(), HasSubstr("purpose must be TRAIN, EVAL or LIVE"));
  t = SampleTrajectory(SampleId(1, 0));
  t.mutable_id()->clear_task();
  EXPECT_THAT(Put(PutTrajectory{t}).message(), HasSubstr("without a task"));
  t = SampleTrajectory(SampleId(std::numeric_limits<uint64_t>::max(), 0));
  EXPECT_THAT(Put(PutTrajectory{t}).message(), HasSubstr("group 18446744073709551615 is above"));
}

TEST_F(RunDbTest, AnOpThatIsWrongFailsAloneInItsTransaction) {
  PutSample(1, 0);
  const StoreOp good = PutTrajectory{SampleTrajectory(SampleId(2, 0))};
  const StoreOp twice = PutTrajectory{SampleTrajectory(SampleId(1, 0))};
  const StoreOp lost = PutStep{7, 3, {SampleId(2, 0), SampleId(50, 0)}, "{}"};
  const StoreOp verdict = PutVerdict{SampleVerdict(SampleId(2, 0), 0.25)};
  const StoreOp* ops[] = {&good, &twice, &lost, &verdict};
  const auto outcomes = db_->Apply(ops);
  ASSERT_TRUE(outcomes.ok());
  EXPECT_TRUE((*outcomes)[0].status.ok());
  EXPECT_EQ((*outcomes)[1].status.code(), Code::kExists);
  EXPECT_EQ((*outcomes)[2].status.code(), Code::kNotFound);
  EXPECT_THAT((*outcomes)[2].status.message(), HasSubstr("step 7: no trajectory task-1/50/0#1"));
  EXPECT_TRUE((*outcomes)[3].status.ok());
  const auto episode = Reader()->Episode(2, 0);
  EXPECT_EQ(episode->row.uses, 0U) << "half a step was kept";
  EXPECT_EQ(episode->row.reward, 0.25);
  EXPECT_TRUE(Reader()->Steps(0, 10)->empty());
}

TEST_F(RunDbTest, ALaterVerdictReplacesTheEarlierOne) {
  PutSample(1, 0);
  ASSERT_TRUE(Put(PutVerdict{SampleVerdict(SampleId(1, 0), 0.5)}).ok());
  ASSERT_TRUE(Put(PutVerdict{SampleVerdict(SampleId(1, 0), 1.0)}).ok());
  const auto episode = Reader()->Episode(1, 0);
  EXPECT_EQ(episode->verdict->reward(), 1.0);
  EXPECT_EQ(episode->row.reward, 1.0);
  EXPECT_EQ(episode->row.solved, true);
}

TEST_F(RunDbTest, AVerdictWithoutARewardLeavesNoReward) {
  PutSample(1, 0);
  v1::Verdict verdict = SampleVerdict(SampleId(1, 0), 0);
  verdict.set_scored(false);
  verdict.set_cause("the judge did not answer");
  ASSERT_TRUE(Put(PutVerdict{verdict}).ok());
  const auto episode = Reader()->Episode(1, 0);
  EXPECT_EQ(episode->row.scored, false);
  EXPECT_FALSE(episode->row.reward);
  EXPECT_FALSE(episode->row.solved);
  EXPECT_EQ(episode->verdict->cause(), "the judge did not answer");
}

TEST_F(RunDbTest, AVerdictOnAnotherAttemptIsNotTaken) {
  PutSample(1, 0);
  const Status status = Put(PutVerdict{SampleVerdict(SampleId(1, 0, 2), 1)});
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("attempt 1 is"));
  v1::Verdict nan = SampleVerdict(SampleId(1, 0), std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(Put(PutVerdict{nan}).code(), Code::kInvalid);
  EXPECT_FALSE(Reader()->Episode(1, 0)->verdict);
}

TEST_F(RunDbTest, AUseCountsOncePerStep) {
  PutSample(1, 0);
  const PutStep step{1, 2, {SampleId(1, 0), SampleId(1, 0)}, "{\"loss\":1}"};
  ASSERT_TRUE(Put(step).ok());
  ASSERT_TRUE(Put(step).ok());
  EXPECT_EQ(Reader()->Episode(1, 0)->row.uses, 1U);
  ASSERT_TRUE(Put(PutStep{2, 3, {SampleId(1, 0)}, "{}"}).ok());
  const auto episode = Reader()->Episode(1, 0);
  EXPECT_EQ(episode->row.uses, 2U);
  EXPECT_THAT(episode->used_by, testing::ElementsAre(1, 2));
}

TEST_F(RunDbTest, AFateIsKeptWithItsReason) {
  PutSample(1, 0);
  ASSERT_TRUE(Put(PutFate{SampleId(1, 0), Fate::kStale, "lag 9 > 8"}).ok());
  const auto episode = Reader()->Episode(1, 0);
  EXPECT_EQ(episode->row.fate, "stale");
  EXPECT_EQ(episode->row.fate_reason, "lag 9 > 8");
  EXPECT_EQ(Put(PutFate{SampleId(9, 0), Fate::kStale, ""}).code(), Code::kNotFound);
}

TEST_F(RunDbTest, VersionsAreNeverGivenTwice) {
  const StoreOp reserve = ReserveVersion{4};
  const StoreOp* ops[] = {&reserve, &reserve};
  auto outcomes = db_->Apply(ops);
  EXPECT_EQ((*outcomes)[0].version, 1U);
  EXPECT_EQ((*outcomes)[1].version, 2U);
  // A version that came in by another way is taken as well.
  ASSERT_TRUE(Put(PutCheckpoint{4, 17, "checkpoints/step-4"}).ok());
  db_.reset();
  db_ = OpenDb(dir_ / "run.db");
  outcomes = db_->Apply(ops);
  EXPECT_EQ((*outcomes)[0].version, 18U);
}

TEST_F(RunDbTest, AHigherRevisionOfAReportReplacesALowerOne) {
  ASSERT_TRUE(Put(SampleGroup(5, "c5")).ok());
  ASSERT_TRUE(Put(SampleReport(5, 2, 3, 1)).ok());
  ASSERT_TRUE(Put(SampleReport(5, 1, 0, 0)).ok());
  const auto group = Reader()->Group(5);
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(group->report.revision(), 2U);
  EXPECT_EQ(group->report.accepted(), 3U);
  EXPECT_EQ(group->lease.seed(), 85U);
  EXPECT_EQ(Put(SampleReport(6, 1, 0, 0)).code(), Code::kNotFound);
  EXPECT_EQ(Put(SampleReport(5, 0, 0, 0)).code(), Code::kInvalid);
}

TEST_F(RunDbTest, AGroupNumberBelongsToOneTask) {
  ASSERT_TRUE(Put(SampleGroup(5, "c5")).ok());
  EXPECT_TRUE(Put(SampleGroup(5, "c5")).ok()) << "the same one again";
  PutGroup other = SampleGroup(5, "c6");
  other.group.mutable_task()->set_id("another");
  EXPECT_EQ(Put(other).code(), Code::kExists);
}

TEST_F(RunDbTest, ADamagedPageIsReportedByNameAndNotReadAsData) {
  for (uint64_t group = 1; group <= 200; ++group) PutSample(group, 0);
  db_.reset();
  {
    std::fstream file(dir_ / "run.db", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(0, std::ios::end);
    const auto size = static_cast<int64_t>(file.tellp());
    for (int64_t at = 8192 * 2; at < size; at += 8192) {
      file.seekp(at);
      file << std::string(4000, '\xee');
    }
  }
  RealClock clock;
  auto db = RunDb::Open(dir_ / "run.db", clock);
  // Opening may find it already; asking for everything must.
  const Status status = db.ok() ? (*db)->CheckIntegrity() : db.status();
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(dir_ / "run.db"));
  EXPECT_THAT(status.message(), HasSubstr("damaged"));
  if (db.ok()) {
    EXPECT_EQ((*db)->LoadForResume(1).status().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace tidemill
