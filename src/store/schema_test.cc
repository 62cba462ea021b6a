#include "store/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "store/run_reader.h"
#include "store/store_samples.h"

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
