#include "run/level_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "store/run_db.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::ElementsAre;

class LevelMetricsTest : public testing::Test {
 protected:
  // A run of two evaluated tasks and four steps.
  void SetUp() override {
    auto db = RunDb::Open(folder_ / "run.db", clock_);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    for (uint64_t group : {1, 2}) {
      PutGroup put;
      put.group.set_group(group);
      put.group.mutable_task()->set_id("task-" + std::to_string(group));
      put.group.set_members(1);
      put.group.set_purpose(v1::PURPOSE_EVAL);
      put.group.set_eval_name("during-step-2");
      put.evaluation = GroupEvaluation{1, 2, 2};
      ASSERT_TRUE((*db)->ApplyOne(put).ok());
      v1::Trajectory trajectory;
      trajectory.mutable_id()->set_task("task-" + std::to_string(group));
      trajectory.mutable_id()->set_group(group);
      trajectory.set_purpose(v1::PURPOSE_EVAL);
      trajectory.set_eval_name("during-step-2");
      trajectory.set_group_members(1);
      ASSERT_TRUE((*db)->ApplyOne(PutTrajectory{trajectory}).ok());
      v1::Verdict verdict;
      *verdict.mutable_id() = trajectory.id();
      verdict.set_scored(true);
      verdict.set_reward(group == 1 ? 1 : 0.5);
      verdict.set_solved(group == 1);
      ASSERT_TRUE((*db)->ApplyOne(PutVerdict{verdict}).ok());
      PutGroupReport report;
      report.report.set_group(group);
      report.report.set_revision(1);
      report.report.set_accepted(1);
      ASSERT_TRUE((*db)->ApplyOne(report).ok());
    }
    for (uint64_t step = 1; step <= 4; ++step) {
      const std::string metrics = "{\"step\":" + std::to_string(step) +
                                  ",\"loss\":" + std::to_string(step) + ".5,\"kl\":null}";
      ASSERT_TRUE((*db)->ApplyOne(PutStep{step, step, {}, metrics}).ok());
    }
    auto reader = RunReader::Open(folder_ / "run.db");
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    reader_ = std::move(*reader);
  }

  // The lines afterwards, "step 3" or "eval during-step-2"; others by their kind.
  std::vector<std::string> Level(uint64_t step) {
    std::vector<std::string> taken;
    const Status status = LevelMetrics(path_, step, *reader_, [&](const JournalEntry& entry) {
      std::string name = entry.kind;
      if (entry.kind == "step") name += " " + std::to_string(int(entry.numbers.at("step")));
      if (entry.kind == "eval") name += " " + entry.words.at("name");
      taken.push_back(name);
      entries_[name] = entry;
      return Ok();
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    std::vector<std::string> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    EXPECT_EQ(lines.size(), taken.size());
    for (size_t i = 0; i < std::min(lines.size(), taken.size()); ++i) {
      EXPECT_EQ(JournalEntry::Parse(lines[i])->ToJson(), entries_[taken[i]].ToJson());
    }
    return taken;
  }

  TemporaryDirectory folder_;
  RealClock clock_;
  const std::string path_ = folder_ / "metrics.jsonl";
  std::unique_ptr<RunReader> reader_;
  std::map<std::string, JournalEntry> entries_;
};

TEST_F(LevelMetricsTest, WhatAKilledProcessStoredAndDidNotTellIsPutInItsPlace) {
  std::ofstream(path_) << R"({"time_ms":1,"kind":"step","step":1,"loss":1.5})"
                       << "\n"
                       << R"({"time_ms":2,"kind":"tick","steps":2})"
                       << "\n"
                       << R"({"time_ms":3,"kind":"step","step":3,"loss":3.5})"
                       << "\n"
                       << R"({"time_ms":4,"kind":"st)";
  EXPECT_THAT(Level(4),
              ElementsAre("step 1", "tick", "step 2", "eval during-step-2", "step 3", "step 4"));
  EXPECT_EQ(entries_["step 4"].numbers, (Numbers{{"step", 4}, {"loss", 4.5}}));
  EXPECT_EQ(entries_["eval during-step-2"].numbers, (Numbers{{"pass_rate", 0.5},
                                                             {"reward", 0.75},
                                                             {"tasks", 2},
                                                             {"episodes", 2},
                                                             {"unscored", 0},
                                                             {"step", 2}}));
  EXPECT_THAT(Level(4),
              ElementsAre("step 1", "tick", "step 2", "eval during-step-2", "step 3", "step 4"))
      << "a second time changes nothing";
}

TEST_F(LevelMetricsTest, NoStepStandsTwiceAfterAResume) {
  std::ofstream(path_) << R"({"time_ms":1,"kind":"step","step":1})"
                       << "\n"
                       << R"({"time_ms":1,"kind":"step","step":2})"
                       << "\n"
                       << R"({"time_ms":1,"kind":"eval","name":"during-step-2","step":3})"
                       << "\n"
                       << R"({"time_ms":2,"kind":"tick","steps":3})"
                       << "\n"
                       << R"({"time_ms":3,"kind":"step","step":3})"
                       << "\n"
                       << R"({"time_ms":3,"kind":"checkpoint","step":3,"path":"p"})"
                       << "\n"
                       << R"({"time_ms":3,"kind":"eval","name":"during-step-3","step":3})"
                       << "\n";
  EXPECT_THAT(Level(2), ElementsAre("step 1", "step 2", "eval during-step-2", "tick"));
}

TEST_F(LevelMetricsTest, AFileThatIsGoneIsMadeAgain) {
  EXPECT_THAT(Level(2), ElementsAre("step 1", "step 2", "eval during-step-2"));
}

}  // namespace
}  // namespace tidemill
