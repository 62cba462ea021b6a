#include "store/run_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "testing/store_samples.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Twelve episodes of training: groups 1 to 6 with two members each; member 1 solves it. Group 6 is
// not scored yet, group 5 was given up.
class RunReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    db_ = OpenDb(dir_ / "run.db");
    std::vector<StoreOp> ops;
    for (uint64_t group = 1; group <= 6; ++group) {
      ops.push_back(SampleGroup(group, "c"));
      for (uint32_t member = 0; member < 2; ++member) {
        const v1::TrajectoryId id = SampleId(group, member);
        v1::Trajectory t = SampleTrajectory(id, 10 * static_cast<uint32_t>(group) + member, group);
        if (group == 5)
          t.set_end(v1::EPISODE_END_GIVEN_UP), t.set_stale_cause("engine: no sandbox");
        ops.push_back(PutTrajectory{t});
        if (group == 5) ops.push_back(PutFate{id, Fate::kStale, "no sandbox"});
        if (group < 5) {
          const double reward = member == 1 ? 1.0 : 0.1 * static_cast<double>(group);
          ops.push_back(PutVerdict{SampleVerdict(id, reward)});
        }
      }
    }
    ops.push_back(PutStep{1, 1, {SampleId(1, 0), SampleId(1, 1)}, "{\"loss\":0.5}"});
    ops.push_back(PutStep{2, 2, {SampleId(2, 0)}, "{}"});
    ops.push_back(PutCheckpoint{2, 2, "checkpoints/step-2"});
    Apply(ops);
    auto reader = RunReader::Open(dir_ / "run.db");
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    reader_ = std::move(*reader);
  }

  void Apply(const std::vector<StoreOp>& ops) {
    std::vector<const StoreOp*> pointers;
    for (const StoreOp& op : ops) pointers.push_back(&op);
    auto outcomes = db_->Apply(pointers);
    ASSERT_TRUE(outcomes.ok()) << outcomes.status().ToString();
    for (const auto& outcome : *outcomes) {
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    }
  }

  // Stores one evaluation: by group, what each of its samples earned; below 0: not scored.
  using Samples = std::vector<std::pair<uint64_t, std::vector<double>>>;
  void Evaluate(const GroupEvaluation& evaluation, const std::string& name, const Samples& samples,
                uint64_t version) {
    std::vector<StoreOp> ops;
    for (const auto& [group, rewards] : samples) {
      PutGroup put = SampleGroup(group, "c");
      put.group.set_purpose(v1::PURPOSE_EVAL);
      put.group.set_eval_name(name);
      put.group.set_members(static_cast<uint32_t>(rewards.size()));
      put.evaluation = evaluation;
      ops.push_back(put);
      for (uint32_t member = 0; member < rewards.size(); ++member) {
        v1::Trajectory t = SampleTrajectory(SampleId(group, member), 5, version + group);
        t.set_purpose(v1::PURPOSE_EVAL);
        t.set_eval_name(name);
        ops.push_back(PutTrajectory{t});
        if (rewards[member] >= 0) ops.push_back(PutVerdict{SampleVerdict(t.id(), rewards[member])});
      }
      ops.push_back(SampleReport(group, 1, static_cast<uint32_t>(rewards.size()), 0));
    }
    Apply(ops);
  }

  // "group.member" of the episodes found.
  std::vector<std::string> Find(const EpisodeFilter& filter,
                                EpisodeSort sort = EpisodeSort::kOldest,
                                RunReader::Page page = {}) {
    auto found = reader_->Episodes(filter, sort, page);
    TM_CHECK(found.ok(), found.status().ToString());
    total_ = found->total;
    std::vector<std::string> names;
    for (const EpisodeRow& row : found->rows) {
      names.push_back(std::to_string(row.group) + "." + std::to_string(row.member));
    }
    return names;
  }

  TemporaryDirectory dir_;
  std::unique_ptr<RunDb> db_;
  std::unique_ptr<RunReader> reader_;
  uint64_t total_ = 0;
};

TEST_F(RunReaderTest, EveryFilterRestrictsAndTheyAdd) {
  EXPECT_EQ(Find({}).size(), 12U);
  EpisodeFilter f;
  f.task = "task-3";
  EXPECT_THAT(Find(f), ElementsAre("3.0", "3.1"));
  f.solved = true;
  EXPECT_THAT(Find(f), ElementsAre("3.1"));
  f = {};
  f.reward_min = 0.15, f.reward_max = 0.35;
  EXPECT_THAT(Find(f), ElementsAre("2.0", "3.0"));
  f = {};
  f.fate = Fate::kStale;
  EXPECT_THAT(Find(f), ElementsAre("5.0", "5.1"));
  f = {};
  f.end = v1::EPISODE_END_GIVEN_UP;
  EXPECT_EQ(Find(f).size(), 2U);
  f = {};
  f.version = 4;
  EXPECT_THAT(Find(f), ElementsAre("4.0", "4.1"));
  f = {};
  f.scored = false;
  EXPECT_THAT(Find(f), ElementsAre("5.0", "5.1", "6.0", "6.1"));
  f = {};
  f.group = 2;
  EXPECT_THAT(Find(f), ElementsAre("2.0", "2.1"));
  f = {};
  f.after_seq = 10;
  EXPECT_THAT(Find(f), ElementsAre("6.0", "6.1"));
  f.before_seq = 12;
  EXPECT_THAT(Find(f), ElementsAre("6.0"));
  f = {};
  f.purpose = v1::PURPOSE_EVAL;
  EXPECT_TRUE(Find(f).empty());
  f = {};
  f.task = "'; DROP TABLE trajectories; --";
  EXPECT_TRUE(Find(f).empty());
  EXPECT_EQ(Find({}).size(), 12U);
}

TEST_F(RunReaderTest, PagesFollowTheOrder) {
  EXPECT_THAT(Find({}, EpisodeSort::kWorst, {0, 3}), ElementsAre("1.0", "2.0", "3.0"));
  EXPECT_EQ(total_, 12U);
  EXPECT_THAT(Find({}, EpisodeSort::kWorst, {3, 1}), ElementsAre("4.0"));
  EXPECT_THAT(Find({}, EpisodeSort::kWorst, {8, 2}), ElementsAre("6.1", "6.0"))
      << "without a reward: last";
  EXPECT_THAT(Find({}, EpisodeSort::kBest, {0, 2}), ElementsAre("4.1", "3.1"));
  EXPECT_THAT(Find({}, EpisodeSort::kNewest, {0, 2}), ElementsAre("6.1", "6.0"));
  EXPECT_THAT(Find({}, EpisodeSort::kMostTokens, {0, 2}), ElementsAre("6.1", "6.0"));
  EXPECT_THAT(Find({}, EpisodeSort::kNewest, {100, 5}), ElementsAre());
  EXPECT_EQ(reader_->Episodes({}, EpisodeSort::kNewest, {0, 1001}).status().code(), Code::kInvalid);
}

TEST_F(RunReaderTest, AnEpisodeComesWithItsVerdictAndItsSteps) {
  const auto episode = reader_->Episode(1, 1);
  ASSERT_TRUE(episode.ok());
  EXPECT_EQ(episode->trajectory.turns(0).ids_size(), 11);
  EXPECT_TRUE(episode->verdict->solved());
  EXPECT_THAT(episode->used_by, ElementsAre(1));
  const Status missing = reader_->Episode(1, 7).status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("group 1 member 7"));
}

TEST_F(RunReaderTest, AGroupComesWithItsEpisodes) {
  const auto group = reader_->Group(3);
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(group->lease.task().id(), "task-3");
  EXPECT_EQ(group->report.revision(), 0U);
  EXPECT_EQ(group->episodes.size(), 2U);
  EXPECT_EQ(reader_->Group(77).status().code(), Code::kNotFound);
}

TEST_F(RunReaderTest, TasksHaveTheirPassRates) {
  const auto tasks = reader_->Tasks(v1::PURPOSE_TRAIN);
  ASSERT_TRUE(tasks.ok()) << tasks.status().ToString();
  ASSERT_EQ(tasks->size(), 6U);
  EXPECT_EQ((*tasks)[0].task, "task-1");
  EXPECT_EQ((*tasks)[0].episodes, 2U);
  EXPECT_EQ((*tasks)[0].pass_rate(), 0.5);
  EXPECT_DOUBLE_EQ((*tasks)[0].mean_reward, 0.55);
  EXPECT_EQ((*tasks)[4].scored, 0U);
  EXPECT_EQ((*tasks)[4].pass_rate(), 0.0);
  EXPECT_TRUE(reader_->Tasks(v1::PURPOSE_EVAL)->empty());
  EXPECT_EQ(reader_->Tasks(v1::PURPOSE_UNSPECIFIED)->size(), 6U);
}

TEST_F(RunReaderTest, ThePassRateOverTimeCountsEveryScoredEpisodeOnce) {
  const auto points = reader_->PassRateOverTime("", v1::PURPOSE_TRAIN, 3);
  ASSERT_EQ(points->size(), 3U);
  uint64_t episodes = 0, solved = 0;
  for (const auto& point : *points) episodes += point.episodes, solved += point.solved;
  EXPECT_EQ(episodes, 8U);
  EXPECT_EQ(solved, 4U);
  EXPECT_LT((*points)[0].from_ms, (*points)[1].from_ms);
  const auto one = reader_->PassRateOverTime("task-2", v1::PURPOSE_TRAIN, 1);
  EXPECT_EQ((*one)[0].episodes, 2U);
  EXPECT_TRUE(reader_->PassRateOverTime("none", v1::PURPOSE_TRAIN, 5)->empty());
  EXPECT_EQ(reader_->PassRateOverTime("", v1::PURPOSE_TRAIN, 0).status().code(), Code::kInvalid);
}

TEST_F(RunReaderTest, StepsCountsAndCheckpoints) {
  const auto steps = reader_->Steps(0, 10);
  ASSERT_EQ(steps->size(), 2U);
  EXPECT_EQ((*steps)[0].used, 2U);
  EXPECT_EQ((*steps)[0].metrics_json, "{\"loss\":0.5}");
  EXPECT_EQ(reader_->Steps(1, 10)->size(), 1U);
  const auto counts = reader_->Counts();
  EXPECT_EQ(counts->episodes, 12U);
  EXPECT_EQ(counts->train, 12U);
  EXPECT_EQ(counts->eval, 0U);
  EXPECT_EQ(counts->unscored, 4U);
  EXPECT_EQ(counts->groups, 6U);
  EXPECT_EQ(counts->groups_outstanding, 6U);
  EXPECT_EQ(counts->train_by_fate.at("stale"), 2U);
  EXPECT_EQ(counts->train_by_fate.at("stored"), 7U);
  EXPECT_EQ(counts->train_by_fate.at("used"), 3U);
  EXPECT_EQ(counts->stale_by_cause.at("engine: no sandbox"), 2U);
  EXPECT_EQ(counts->stale_by_kind.at("engine"), 2U);
  EXPECT_EQ(reader_->Checkpoints()->at(0).path, "checkpoints/step-2");
}

TEST_F(RunReaderTest, EveryGroupIssuedIsInTheBooksOnce) {
  PutGroupReport old = SampleReport(5, 1, 0, 4);
  old.report.set_reason("stale");
  // 1 and 2 were used; 3 is accepted with two of its four members; 4 and 6 have no report; 7 and 8
  // are not in the ledger, 9 is an evaluation that a resume begins anew.
  PutGroup eval = SampleGroup(9, "c");
  eval.group.set_purpose(v1::PURPOSE_EVAL);
  eval.group.set_issued_ms(1);
  Apply({SampleReport(1, 1, 4, 0), SampleReport(2, 1, 4, 0), SampleReport(3, 1, 4, 0), old, eval});
  Result<GroupBooks> books = reader_->Books();
  ASSERT_TRUE(books.ok()) << books.status().ToString();
  EXPECT_EQ(books->issued, 9u);
  EXPECT_EQ(books->trained, 2u);
  EXPECT_EQ(books->ready, 1u);
  EXPECT_EQ(books->dropped, (std::map<std::string, uint64_t>{{"stale", 1}}));
  EXPECT_EQ(books->missing, 2u);
  EXPECT_EQ(books->episodes_missing, 6u) << "two of groups 1, 2 and 3 each";
  ASSERT_EQ(books->open.size(), 3u);
  EXPECT_EQ(books->open[0].group, 4u);
  EXPECT_EQ(books->open[0].stored, (std::set<uint32_t>{0, 1}));
  ASSERT_TRUE(db_->ResumeFrom(2).ok());
  books = reader_->Books();
  EXPECT_EQ(books->abandoned, 1u);
  EXPECT_EQ(books->open.size(), 2u);
}

TEST_F(RunReaderTest, AnEvaluationIsAveragedOverItsTasks) {
  // Task 1: 2 of 2 solved; task 2: 1 of 4; task 3: its only sample was not scored.
  Evaluate({8, 0, 3}, "before", {{8, {1, 1}}, {9, {1, 0, 0, 0}}, {10, {-1}}}, 40);
  const auto result = reader_->Eval("before");
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->tasks, 3U);
  EXPECT_EQ(result->samples, 6U);
  EXPECT_EQ(result->unscored, 1U);
  EXPECT_EQ(result->solved, 3U);
  EXPECT_EQ(result->tasks_solved, 2U);
  EXPECT_DOUBLE_EQ(result->pass_rate.value(), 0.625);
  // 1.96 * sd(1, 0.25) / sqrt(2) = 1.96 * 0.375
  EXPECT_NEAR(result->pass_rate_ci95.value(), 0.735, 1e-9);
  EXPECT_DOUBLE_EQ(result->mean_reward.value(), 0.5);
  EXPECT_EQ(result->min_version, 48U);
  EXPECT_EQ(result->max_version, 50U);
  EXPECT_EQ(reader_->Evals()->size(), 1U);
  EXPECT_EQ(reader_->EvalTasks("before")->at(1).solved, 1U);
  EXPECT_EQ(reader_->Eval("after").status().code(), Code::kNotFound);
  EXPECT_EQ(reader_->Counts()->eval, 7U);
}

// Tasks 0 and 1 of an evaluation are those of groups 7 n and 7 n + 1.
TEST_F(RunReaderTest, OfSeveralEvaluationsOfANameTheLastWholeOneCounts) {
  Evaluate({14, 1, 2}, "after", {{14, {1, 1}}, {15, {0, 0}}}, 0);
  Evaluate({21, 2, 2}, "after", {{21, {1, 1}}, {22, {1, 0}}}, 100);
  Evaluate({28, 2, 2}, "after", {{28, {0, 0}}}, 200);  // stopped in the middle
  const auto after = reader_->Eval("after");
  ASSERT_TRUE(after.ok()) << after.status().ToString();
  EXPECT_DOUBLE_EQ(after->pass_rate.value(), 0.75);
  EXPECT_EQ(after->samples, 4u);
  EXPECT_EQ(after->step, 2u);
  EXPECT_TRUE(after->complete);
  EXPECT_EQ(after->min_version, 121u) << "versions of that evaluation alone";
  EXPECT_EQ(reader_->Evals()->size(), 1u);
  const std::vector<TaskStats> tasks = *reader_->EvalTasks("after");
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].scored, 2u) << "two samples a task, not those of every evaluation";
  EpisodeFilter filter;
  filter.eval_name = "after";
  EXPECT_THAT(Find(filter), ElementsAre("21.0", "21.1", "22.0", "22.1"));
  EXPECT_EQ(reader_->Episodes(filter, EpisodeSort::kOldest, {})->rows[0].eval_step, 2u);

  const std::vector<EvalResult> history = *reader_->EvalHistory();
  ASSERT_EQ(history.size(), 3u);
  EXPECT_DOUBLE_EQ(history[0].pass_rate.value(), 0.5);
  EXPECT_FALSE(history[2].complete);
  EXPECT_EQ(history[2].tasks, 1u);
  EXPECT_EQ(history[2].tasks_planned, 2u);

  // Back to the first step: what was evaluated later is of weights that are gone.
  ASSERT_TRUE(db_->ResumeFrom(1).ok());
  EXPECT_DOUBLE_EQ(reader_->Eval("after")->pass_rate.value(), 0.5);
  EXPECT_EQ(reader_->EvalHistory()->size(), 1u);
}

TEST_F(RunReaderTest, AnEvaluationThatAResumeRepeatsCountsOnce) {
  Evaluate({14, 0, 2}, "before", {{14, {1}}}, 0);
  EXPECT_FALSE(reader_->Eval("before")->complete);
  Evaluate({21, 0, 2}, "before", {{21, {0}}, {22, {1}}}, 0);
  const EvalResult before = *reader_->Eval("before");
  EXPECT_EQ(before.samples, 2u);
  EXPECT_DOUBLE_EQ(before.pass_rate.value(), 0.5);
  const GroupBooks books = *reader_->Books();
  EXPECT_EQ(books.evaluated, 2u);
  EXPECT_EQ(books.abandoned, 1u);
}

TEST_F(RunReaderTest, TheSamplesOfATaskThatWasGivenUpAreUnscored) {
  Evaluate({14, 0, 2}, "before", {{14, {1, 1}}}, 0);
  PutGroup lost = SampleGroup(15, "c");
  lost.group.set_purpose(v1::PURPOSE_EVAL);
  lost.group.set_eval_name("before");
  lost.group.set_members(2);
  lost.evaluation = GroupEvaluation{14, 0, 2};
  Apply({lost, SampleReport(15, 1, 0, 2)});  // no worker brought a trajectory
  const EvalResult before = *reader_->Eval("before");
  EXPECT_TRUE(before.complete);
  EXPECT_EQ(before.tasks, 2u);
  EXPECT_EQ(before.samples, 2u);
  EXPECT_EQ(before.unscored, 2u);
  EXPECT_DOUBLE_EQ(before.pass_rate.value(), 1);
  EXPECT_FALSE(before.pass_rate_ci95) << "one task has no spread";
}

TEST_F(RunReaderTest, AnEvaluationInWhichNothingWasScoredHasNoRate) {
  Evaluate({14, 0, 1}, "after", {{14, {-1, -1}}}, 0);
  const EvalResult after = *reader_->Eval("after");
  EXPECT_TRUE(after.complete);
  EXPECT_EQ(after.samples, 0u);
  EXPECT_EQ(after.unscored, 2u);
  EXPECT_FALSE(after.pass_rate) << "none is not 0 %";
  EXPECT_FALSE(after.mean_reward);
}

TEST_F(RunReaderTest, AReaderSeesWhatIsWrittenAfterItWasOpened) {
  Apply({PutTrajectory{SampleTrajectory(SampleId(20, 0))}});
  EXPECT_TRUE(reader_->Episode(20, 0).ok());
}

TEST_F(RunReaderTest, ManyThreadsMayReadWhileOneWrites) {
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(reader_->Counts().ok());
        EXPECT_TRUE(reader_->Episode(1, 0).ok());
      }
    });
  }
  for (uint64_t group = 100; group < 120; ++group) {
    Apply({PutTrajectory{SampleTrajectory(SampleId(group, 0))}});
  }
  for (std::thread& thread : readers) thread.join();
  EXPECT_EQ(reader_->Counts()->episodes, 32U);
}

TEST_F(RunReaderTest, AFinishedRunCanBeReadAfterItsWriterHasGone) {
  reader_.reset();
  db_.reset();
  auto reader = RunReader::Open(dir_ / "run.db");
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_EQ((*reader)->Counts()->episodes, 12U);
}

TEST_F(RunReaderTest, ARunOnADiskThatOnlyReadsCanBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  reader_.reset();
  db_.reset();
  ASSERT_EQ(chmod(dir_.path().c_str(), 0555), 0);
  auto reader = RunReader::Open(dir_ / "run.db");
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  if (reader.ok()) {
    EXPECT_EQ((*reader)->Counts()->episodes, 12U);
  }
  reader = NotFound("closed");
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
}

TEST(RunReader, AMissingDatabaseIsNotFoundAndNotMade) {
  TemporaryDirectory dir;
  EXPECT_EQ(RunReader::Open(dir / "run.db").status().code(), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(dir / "run.db"));
}

TEST_F(RunReaderTest, KnowsWhatTheModelWroteWhatWasUsedAndWhyAgentsHadNothing) {
  TokenUse use = reader_->Tokens().value();
  uint64_t drawn = 0;
  for (uint64_t group = 1; group <= 6; ++group) drawn += 20 * group + 1;
  EXPECT_EQ(use.drawn, drawn);
  EXPECT_EQ(use.used, 10u + 11u + 20u) << "by the two steps";
  EXPECT_TRUE(use.untrained.empty());
  std::vector<StoreOp> ops = {SampleGroup(7, "c")};
  for (uint32_t member = 0; member < 2; ++member) {
    v1::Trajectory silent = SampleTrajectory(SampleId(7, member), 0);
    silent.mutable_log()->set_untrained("it ended without asking the model");
    silent.mutable_log()->set_answers(member);
    ops.push_back(PutTrajectory{silent});
  }
  Apply(ops);
  use = reader_->Tokens().value();
  EXPECT_EQ(use.drawn, drawn);
  EXPECT_EQ(use.untrained.at("it ended without asking the model"), 2u);
  EXPECT_EQ(use.answers, 1u);
}

}  // namespace
}  // namespace tidemill
