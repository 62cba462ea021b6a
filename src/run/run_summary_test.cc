#include "run/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "store/run_db.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class RunSummaryTest : public testing::Test {
 protected:
  // The samples of each task: solved or not; -1: could not be scored.
  void Evaluate(const std::string& name, uint64_t first, uint64_t step,
                const std::vector<std::vector<int>>& tasks) {
    const auto db = RunDb::Open(directory_.db_path(), clock_);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    for (size_t task = 0; task < tasks.size(); ++task) {
      PutGroup put;
      put.group.set_group(first + task);
      put.group.mutable_task()->set_id("task-" + std::to_string(task));
      put.group.set_members(static_cast<uint32_t>(tasks[task].size()));
      put.group.set_purpose(v1::PURPOSE_EVAL);
      put.group.set_eval_name(name);
      put.evaluation = GroupEvaluation{first, step, static_cast<uint32_t>(tasks.size())};
      ASSERT_TRUE((*db)->ApplyOne(put).ok());
      PutGroupReport report;
      report.report.set_group(first + task);
      report.report.set_revision(1);
      report.report.set_accepted(put.group.members());
      for (uint32_t member = 0; member < tasks[task].size(); ++member) {
        v1::Trajectory trajectory;
        trajectory.mutable_id()->set_task(put.group.task().id());
        trajectory.mutable_id()->set_group(first + task);
        trajectory.mutable_id()->set_member(member);
        trajectory.set_purpose(v1::PURPOSE_EVAL);
        trajectory.set_eval_name(name);
        trajectory.set_group_members(put.group.members());
        ASSERT_TRUE((*db)->ApplyOne(PutTrajectory{trajectory}).ok());
        if (tasks[task][member] < 0) continue;
        v1::Verdict verdict;
        *verdict.mutable_id() = trajectory.id();
        verdict.set_scored(true);
        verdict.set_reward(tasks[task][member]);
        verdict.set_solved(tasks[task][member] > 0);
        ASSERT_TRUE((*db)->ApplyOne(PutVerdict{verdict}).ok());
      }
      ASSERT_TRUE((*db)->ApplyOne(report).ok());
    }
  }
  std::string Summary() {
    auto summary = MakeSummary(directory_, {});
    EXPECT_TRUE(summary.ok()) << summary.status().ToString();
    return *summary;
  }

  TemporaryDirectory folder_;
  RealClock clock_;
  RunDirectory directory_ = RunDirectory::Create(folder_.path(), "r", "").value();
};

TEST_F(RunSummaryTest, TheGainComesWithItsInterval) {
  Evaluate("before", 1, 0, {{0, 0}, {1, 0}, {0, 0}, {0, 1}});
  Evaluate("after", 11, 5, {{1, 1}, {1, 1}, {1, 0}, {1, 1}});
  const json evals = json::parse(Summary())["eval"];
  EXPECT_EQ(evals["before"]["pass_rate"], 0.25);
  EXPECT_EQ(evals["after"]["pass_rate"], 0.875);
  EXPECT_EQ(evals["after"]["pass_at_2"], 1);
  EXPECT_THAT(SummaryText(Summary()),
              HasSubstr("25.0 -> 87.5 % of 4 held-out tasks: +62.5 points ±"));
}

TEST_F(RunSummaryTest, TheGainOfAnEarlierStepSaysSo) {
  Evaluate("before", 1, 0, {{0}, {1}});
  Evaluate("after", 11, 1, {{1}, {1}});
  const auto db = RunDb::Open(directory_.db_path(), clock_);
  for (uint64_t step = 1; step <= 3; ++step) {
    ASSERT_TRUE((*db)->ApplyOne(PutStep{step, step, {}, "{}"}).ok());
  }
  EXPECT_THAT(SummaryText(Summary()), HasSubstr("% of 2 held-out tasks after step 1 of 3: +50.0"));
}

TEST_F(RunSummaryTest, WhereNothingWasScoredThereIsNoRateAndNoGain) {
  Evaluate("before", 1, 0, {{1, 0}, {1, 1}});
  Evaluate("after", 11, 5, {{-1, -1}, {-1, -1}});
  const json after = json::parse(Summary())["eval"]["after"];
  EXPECT_TRUE(after["pass_rate"].is_null()) << after;
  EXPECT_TRUE(after["mean_reward"].is_null());
  EXPECT_EQ(after["unscored"], 4);
  const std::string text = SummaryText(Summary());
  EXPECT_THAT(text, HasSubstr("pass@1 - %  (2 tasks at step 5; 4 samples could not be scored)"));
  EXPECT_THAT(text, Not(HasSubstr("->"))) << "75 -> 0 % would be our failure, not the policy's";
}

TEST_F(RunSummaryTest, ATaskThatCouldNotBeScoredIsNoFailure) {
  Evaluate("before", 1, 0, {{1, 0}, {-1, -1}, {1, 1}});
  const json before = json::parse(Summary())["eval"]["before"];
  EXPECT_EQ(before["pass_rate"], 0.75);
  EXPECT_EQ(before["pass_at_2"], 1) << "of the tasks that were scored";
  EXPECT_THAT(SummaryText(Summary()), HasSubstr("2 samples could not be scored"));
}

TEST_F(RunSummaryTest, OneTaskHasNoInterval) {
  Evaluate("before", 1, 0, {{0, 0, 0, 1}});
  Evaluate("after", 11, 5, {{1, 0, 0, 1}});
  EXPECT_TRUE(json::parse(Summary())["eval"]["after"]["ci95"].is_null());
  const std::string text = SummaryText(Summary());
  EXPECT_THAT(text, Not(HasSubstr("±")));
  EXPECT_THAT(text, HasSubstr("+25.0 points; chance alone can explain what one task shows"));
}

}  // namespace
}  // namespace tidemill
