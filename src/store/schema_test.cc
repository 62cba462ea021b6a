#include "store/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "store/run_reader.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

std::unique_ptr<Database> Open(const std::string& path) {
  auto db = Database::Open(path, {});
  TM_CHECK(db.ok(), db.status().ToString());
  return std::move(*db);
}

TEST(Schema, AnEmptyDatabaseBecomesTheNewestVersion) {
  TemporaryDirectory dir;
  auto db = Open(dir / "run.db");
  ASSERT_TRUE(Migrate(*db, RunDbMigrations()).ok());
  EXPECT_EQ(*db->Integer("PRAGMA user_version"), static_cast<int64_t>(RunDbMigrations().size()));
  EXPECT_EQ(*db->Integer("PRAGMA application_id"), kRunDbApplicationId);
  EXPECT_EQ(*db->Integer("SELECT count(*) FROM trajectories"), 0);
  EXPECT_TRUE(Migrate(*db, RunDbMigrations()).ok()) << "a second time changes nothing";
}

TEST(Schema, OnlyTheMissingMigrationsRunAndTheRowsStay) {
  TemporaryDirectory dir;
  auto db = Open(dir / "run.db");
  const char* const first[] = {"CREATE TABLE things (n INTEGER); INSERT INTO things VALUES (5);"};
  const char* const both[] = {first[0],
                              "ALTER TABLE things ADD COLUMN twice INTEGER; "
                              "UPDATE things SET twice = n * 2;"};
  ASSERT_TRUE(Migrate(*db, first).ok());
  ASSERT_TRUE(Migrate(*db, both).ok());
  EXPECT_EQ(*db->Integer("SELECT sum(twice) FROM things"), 10);
  EXPECT_EQ(*db->Integer("PRAGMA user_version"), 2);
}

TEST(Schema, AMigrationThatFailsLeavesTheVersionBeforeIt) {
  TemporaryDirectory dir;
  auto db = Open(dir / "run.db");
  const char* const bad[] = {"CREATE TABLE things (n INTEGER);",
                             "CREATE TABLE more (n INTEGER); INSERT INTO nowhere VALUES (1);"};
  const Status status = Migrate(*db, bad);
  EXPECT_THAT(status.message(), HasSubstr("migrating the schema to version 2"));
  EXPECT_EQ(*db->Integer("PRAGMA user_version"), 1);
  EXPECT_EQ(*db->Integer("SELECT count(*) FROM sqlite_schema WHERE name = 'more'"), 0);
}

TEST(Schema, ANewerOneIsRefusedByWriterAndReader) {
  TemporaryDirectory dir;
  OpenDb(dir / "run.db");
  ASSERT_TRUE(Open(dir / "run.db")->Exec("PRAGMA user_version = 99").ok());
  RealClock clock;
  const auto writer = RunDb::Open(dir / "run.db", clock);
  EXPECT_EQ(writer.status().code(), Code::kInvalid);
  EXPECT_THAT(writer.status().message(), HasSubstr("schema version 99"));
  EXPECT_THAT(writer.status().message(), HasSubstr("newer tidemill"));
  EXPECT_THAT(RunReader::Open(dir / "run.db").status().message(), HasSubstr("newer tidemill"));
}

TEST(Schema, AnOlderOneIsNotChangedByAReader) {
  TemporaryDirectory dir;
  OpenDb(dir / "run.db");
  ASSERT_TRUE(Open(dir / "run.db")->Exec("PRAGMA user_version = 0").ok());
  EXPECT_THAT(RunReader::Open(dir / "run.db").status().message(), HasSubstr("older tidemill"));
}

// One "after" at step 1, a resume, one at step 2, a resume that gives step 2 up, and one more.
constexpr const char* kOlderEvaluations = R"sql(
  INSERT INTO steps VALUES (0, 1, 1, 100, '{}'), (2, 2, 2, 300, '{}'), (0, 2, 3, 500, '{}');
  INSERT INTO resumes VALUES (1, 1, 200), (2, 1, 400);
  INSERT INTO groups (grp, task, purpose, eval_name, members, issued_ms, cursor, lease, accepted)
    VALUES (1, 'a', 2, 'after', 1, 110, '', x'', 1), (2, 'b', 2, 'after', 1, 111, '', x'', 1),
           (3, 'a', 2, 'after', 1, 310, '', x'', 1), (4, 'b', 2, 'after', 1, 311, '', x'', 1),
           (5, 'a', 2, 'after', 1, 510, '', x'', 1);
)sql";

TEST(Schema, EvaluationsOfAnOlderRunAreToldApartByReaderAndMigration) {
  TemporaryDirectory dir;
  {
    auto db = Open(dir / "run.db");
    ASSERT_TRUE(Migrate(*db, RunDbMigrations().first(4)).ok());
    ASSERT_TRUE(db->Exec(kOlderEvaluations).ok());
  }
  for (const char* by : {"reader", "migration"}) {
    SCOPED_TRACE(by);
    if (std::string(by) == "migration") OpenDb(dir / "run.db");
    auto reader = RunReader::Open(dir / "run.db");
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    const std::vector<EvalResult> history = *(*reader)->EvalHistory();
    ASSERT_EQ(history.size(), 2u) << "the evaluation of the step that was given up is gone";
    EXPECT_EQ(history[0].evaluation, 1u);
    EXPECT_EQ(history[0].step, 1u);
    EXPECT_TRUE(history[0].complete);
    EXPECT_EQ(history[1].evaluation, 5u);
    EXPECT_EQ(history[1].step, 2u);
    EXPECT_FALSE(history[1].complete);
    EXPECT_EQ((*reader)->Eval("after")->evaluation, 1u);
  }
}

TEST(Schema, CheckpointsOfAnOlderRunAreFoundInItsFolder) {
  TemporaryDirectory dir;
  {
    auto db = Open(dir / "run.db");
    ASSERT_TRUE(Migrate(*db, RunDbMigrations().first(5)).ok());
    ASSERT_TRUE(db->Exec("INSERT INTO checkpoints VALUES (0, 3, 3, 'runs/old/checkpoints/step-3', "
                         "1), (0, 4, 4, '/data/runs/old/checkpoints/step-4', 2)")
                    .ok());
  }
  OpenDb(dir / "run.db");
  const auto checkpoints = RunReader::Open(dir / "run.db").value()->Checkpoints();
  EXPECT_EQ(checkpoints->at(0).path, "checkpoints/step-3");
  EXPECT_EQ(checkpoints->at(1).path, "checkpoints/step-4");
}

TEST(Schema, ADatabaseOfAnotherProgramIsRefused) {
  TemporaryDirectory dir;
  ASSERT_TRUE(Open(dir / "run.db")->Exec("CREATE TABLE theirs (n INTEGER)").ok());
  RealClock clock;
  EXPECT_THAT(RunDb::Open(dir / "run.db", clock).status().message(),
              HasSubstr("not that of a Tidemill run"));
  EXPECT_THAT(RunReader::Open(dir / "run.db").status().message(),
              HasSubstr("not that of a Tidemill run"));
}

TEST(Schema, AFileThatIsNoDatabaseIsCorruptByName) {
  TemporaryDirectory dir;
  std::ofstream(dir / "run.db") << std::string(20'000, 'x');
  RealClock clock;
  const auto db = RunDb::Open(dir / "run.db", clock);
  EXPECT_EQ(db.status().code(), Code::kCorrupt);
  EXPECT_THAT(db.status().message(), HasSubstr(dir / "run.db"));
  EXPECT_THAT(db.status().message(), HasSubstr("not an SQLite database"));
}

}  // namespace
}  // namespace tidemill
