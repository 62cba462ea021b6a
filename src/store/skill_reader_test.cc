#include "store/skill_reader.h"

#include <gtest/gtest.h>

#include "store/schema.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

v1::SkillLesson SampleLesson(uint64_t group, const std::string& name) {
  v1::SkillLesson lesson;
  lesson.set_key("group/" + std::to_string(group));
  lesson.set_scope("p");
  lesson.set_group(group);
  v1::SkillChange& change = *lesson.add_changes();
  change.set_kind(v1::SkillChange::KIND_INSERT);
  change.mutable_skill()->set_name(name);
  change.mutable_skill()->set_version(1);
  change.set_description("d");
  change.set_body("b\n");
  return lesson;
}

class SkillStore : public testing::Test {
 protected:
  Result<uint64_t> Put(const v1::SkillLesson& lesson) {
    const StoreOp op = PutSkillLesson{lesson};
    const StoreOp* ops[] = {&op};
    auto outcomes = db_->Apply(ops);
    TM_CHECK(outcomes.ok(), outcomes.status().ToString());
    TM_RETURN_IF_ERROR((*outcomes)[0].status);
    return (*outcomes)[0].version;
  }

  TemporaryDirectory dir_;
  std::unique_ptr<RunDb> db_ = OpenDb(dir_ / "run.db");
};

TEST_F(SkillStore, LessonsComeBackInTheOrderTheyWereLearned) {
  EXPECT_EQ(*Put(SampleLesson(7, "b")), 1u);
  EXPECT_EQ(*Put(SampleLesson(3, "a")), 2u);
  db_ = nullptr;
  db_ = OpenDb(dir_ / "run.db");
  const auto state = db_->LoadSkills();
  ASSERT_TRUE(state.ok()) << state.status().ToString();
  ASSERT_EQ(state->lessons.size(), 2u);
  EXPECT_EQ(state->lessons[0].number, 1u);
  EXPECT_EQ(state->lessons[0].lesson.SerializeAsString(), SampleLesson(7, "b").SerializeAsString());
  EXPECT_EQ(state->lessons[1].lesson.group(), 3u);
  EXPECT_EQ(ReadSkillLessons(dir_ / "run.db")->size(), 2u) << "also beside the writer";
}

TEST_F(SkillStore, ALessonIsLearnedOnce) {
  EXPECT_TRUE(Put(SampleLesson(7, "a")).ok());
  EXPECT_EQ(Put(SampleLesson(7, "b")).status().code(), Code::kExists);
  EXPECT_EQ(Put(v1::SkillLesson()).status().code(), Code::kInvalid);
  const auto state = db_->LoadSkills();
  ASSERT_EQ(state->lessons.size(), 1u);
  EXPECT_EQ(state->lessons[0].lesson.changes(0).skill().name(), "a");
}

TEST_F(SkillStore, ScoredEpisodesOfAGroupWithoutALessonAreOwed) {
  for (const uint64_t group : {1, 2}) {
    for (const uint32_t member : {0, 1}) {
      const v1::Trajectory trajectory = SampleTrajectory(SampleId(group, member), 3);
      ASSERT_TRUE(db_->ApplyOne(PutTrajectory{trajectory}).ok());
      if (group == 2 && member == 1) continue;  // not scored yet
      v1::Verdict verdict;
      *verdict.mutable_id() = trajectory.id();
      verdict.set_scored(true);
      ASSERT_TRUE(db_->ApplyOne(PutVerdict{verdict}).ok());
    }
  }
  ASSERT_TRUE(Put(SampleLesson(1, "a")).ok());
  const auto state = db_->LoadSkills();
  ASSERT_TRUE(state.ok()) << state.status().ToString();
  ASSERT_EQ(state->untaught.size(), 1u);
  EXPECT_EQ(state->untaught[0].trajectory.id().group(), 2u);
}

TEST_F(SkillStore, ARunOfBeforeThereWereSkillsIsRefusedByTheReaderAndMigratedByTheWriter) {
  {
    Database::Options options;
    auto db = Database::Open(dir_ / "old.db", options);
    ASSERT_TRUE(Migrate(**db, RunDbMigrations().first(8)).ok());
  }
  EXPECT_EQ(ReadSkillLessons(dir_ / "old.db").status().code(), Code::kInvalid);
  EXPECT_TRUE(OpenDb(dir_ / "old.db")->LoadSkills()->lessons.empty());
  EXPECT_TRUE(ReadSkillLessons(dir_ / "old.db")->empty());
}

}  // namespace
}  // namespace tidemill
