#include "store/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/files.h"
#include "store/run_reader.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

TEST(RunDirectory, ANewRunHasItsFolders) {
  TemporaryDirectory dir;
  const auto run = RunDirectory::Create(dir / "runs", "first", "seed = 1\n");
  ASSERT_TRUE(run.ok()) << run.status().ToString();
  EXPECT_EQ(*run->ReadConfig(), "seed = 1\n");
  EXPECT_TRUE(std::filesystem::is_directory(run->blobs_path()));
  EXPECT_TRUE(std::filesystem::is_directory(run->checkpoints_path()));
  EXPECT_EQ(run->ReadSummary().status().code(), Code::kNotFound);
}

TEST(RunDirectory, AnExistingRunIsNotOverwrittenButCanBeResumed) {
  TemporaryDirectory dir;
  { ASSERT_TRUE(RunDirectory::Create(dir.path(), "a", "seed = 1\n").ok()); }
  const auto again = RunDirectory::Create(dir.path(), "a", "seed = 2\n");
  EXPECT_EQ(again.status().code(), Code::kExists);
  EXPECT_THAT(again.status().message(), HasSubstr(dir / "a"));
  const auto resumed = RunDirectory::OpenToResume(dir.path(), "a");
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(*resumed->ReadConfig(), "seed = 1\n");
  EXPECT_EQ(RunDirectory::OpenToResume(dir.path(), "b").status().code(), Code::kNotFound);
}

TEST(RunDirectory, ARunWhoseMakingWasCutShortCanBeMadeAgain) {
  TemporaryDirectory dir;
  std::filesystem::create_directories(dir / "a/blobs");
  EXPECT_TRUE(RunDirectory::List(dir.path())->empty());
  EXPECT_TRUE(RunDirectory::Create(dir.path(), "a", "").ok());
}

TEST(RunDirectory, TwoWritersAreRefusedWithTheHoldersName) {
  TemporaryDirectory dir;
  auto run = RunDirectory::Create(dir.path(), "a", "");
  ASSERT_TRUE(run.ok());
  const Status second = RunDirectory::OpenToResume(dir.path(), "a").status();
  EXPECT_EQ(second.code(), Code::kUnavailable);
  EXPECT_THAT(second.message(), HasSubstr("process " + std::to_string(getpid()) + " on "));
  EXPECT_THAT(second.message(), HasSubstr(dir / "a/lock"));
  EXPECT_TRUE(RunDirectory::OpenToRead(dir.path(), "a").ok()) << "readers are welcome";
  RunDirectory moved = std::move(*run);
  EXPECT_FALSE(RunDirectory::OpenToResume(dir.path(), "a").ok()) << "moving kept the lock";
}

TEST(RunDirectory, OneThatIsDeletedOrReplacedIsNoticed) {
  TemporaryDirectory dir;
  auto run = RunDirectory::Create(dir.path(), "a", "");
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->CheckThere().ok());
  std::filesystem::rename(dir / "a", dir / "b");
  EXPECT_EQ(run->CheckThere().code(), Code::kNotFound);
  const auto another = RunDirectory::Create(dir.path(), "a", "");
  ASSERT_TRUE(another.ok());
  EXPECT_EQ(run->CheckThere().code(), Code::kNotFound) << "another run of the same name";
  std::filesystem::remove_all(dir / "a");
  EXPECT_THAT(another->CheckThere().message(), HasSubstr(dir / "a"));
}

TEST(RunDirectory, ALockEndsWithItsProcess) {
  TemporaryDirectory dir;
  { ASSERT_TRUE(RunDirectory::Create(dir.path(), "a", "").ok()); }
  const pid_t child = fork();
  if (child == 0) {
    auto run = RunDirectory::OpenToResume(dir.path(), "a");
    _exit(run.ok() ? 0 : 1);  // without letting go of it
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(RunDirectory::OpenToResume(dir.path(), "a").ok());
}

TEST(RunDirectory, TheListSaysWhichRunsAreBeingWritten) {
  TemporaryDirectory dir;
  auto b = RunDirectory::Create(dir.path(), "b", "");
  {
    auto a = RunDirectory::Create(dir.path(), "a", "");
    ASSERT_TRUE(a->WriteSummary("{}").ok());
  }
  std::filesystem::create_directory(dir / "not-a-run");
  const auto runs = RunDirectory::List(dir.path());
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_EQ((*runs)[0].name, "a");
  EXPECT_FALSE((*runs)[0].writing);
  EXPECT_TRUE((*runs)[0].has_summary);
  EXPECT_GT((*runs)[0].modified_ms, 0);
  EXPECT_TRUE((*runs)[1].writing);
  EXPECT_FALSE((*runs)[1].has_summary);
  EXPECT_TRUE(RunDirectory::List(dir / "nowhere")->empty());
}

TEST(RunDirectory, APipeInThePlaceOfAFileHoldsNobodyUp) {
  TemporaryDirectory dir;
  { ASSERT_TRUE(RunDirectory::Create(dir.path(), "a", "").ok()); }
  std::filesystem::remove(dir / "a/lock");
  for (const char* name : {"lock", "metrics.jsonl", "run.db"}) {
    ASSERT_EQ(mkfifo((dir / (std::string("a/") + name)).c_str(), 0600), 0);
  }
  const auto runs = RunDirectory::List(dir.path());
  ASSERT_TRUE(runs.ok());
  EXPECT_FALSE(runs->at(0).writing);
  EXPECT_THAT(RunReader::Open(dir / "a/run.db").status().message(),
              HasSubstr("run.db: not a regular file"));
  EXPECT_THAT(MetricsLog::Open(dir / "a/metrics.jsonl").status().message(),
              HasSubstr("metrics.jsonl: not a regular file"));
  std::filesystem::remove(dir / "a/run.db");
  std::filesystem::remove(dir / "a/metrics.jsonl");
  EXPECT_THAT(RunDirectory::OpenToResume(dir.path(), "a").status().message(),
              HasSubstr("lock: not a regular file"));
}

TEST(RunDirectory, ARunThatLostItsDatabaseDoesNotBeginAnewOverWhatItDid) {
  TemporaryDirectory dir;
  { ASSERT_TRUE(RunDirectory::Create(dir.path(), "a", "").ok()); }
  EXPECT_TRUE(RunDirectory::OpenToResume(dir.path(), "a").ok()) << "it did nothing yet";
  std::ofstream(dir / "a/metrics.jsonl") << "{}\n";
  EXPECT_EQ(RunDirectory::OpenToResume(dir.path(), "a").status().code(), Code::kNotFound);
  std::filesystem::remove(dir / "a/metrics.jsonl");
  std::filesystem::create_directory(dir / "a/checkpoints/step-00000003");
  const Status gone = RunDirectory::OpenToResume(dir.path(), "a").status();
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_THAT(gone.message(), HasSubstr("a/run.db: is missing or empty"));
  std::ofstream(dir / "a/run.db");
  EXPECT_FALSE(RunDirectory::OpenToResume(dir.path(), "a").ok()) << "empty is as good as missing";
  std::ofstream(dir / "a/run.db") << "x";
  EXPECT_TRUE(RunDirectory::OpenToResume(dir.path(), "a").ok()) << "who opens it reads it";
}

TEST(RunDirectory, WhatTheDatabaseNamesIsInTheFolderWhereverThatIs) {
  TemporaryDirectory dir;
  std::filesystem::create_directories(dir / "runs/a");
  {
    auto db = OpenDb(dir / "runs/a/run.db");
    ASSERT_TRUE(db->ApplyOne(PutCheckpoint{3, 3, dir / "runs/a/checkpoints/step-3"}).ok());
  }
  { ASSERT_TRUE(RunDirectory::Create(dir / "other", "b", "").ok()); }
  std::filesystem::copy(dir / "runs/a/run.db", dir / "other/b/run.db");
  const auto copy = RunDirectory::OpenToRead(dir / "other", "b");
  const auto kept = RunReader::Open(copy->db_path()).value()->Checkpoints();
  EXPECT_EQ(copy->Inside(kept->at(0).path), dir / "other/b/checkpoints/step-3");
  EXPECT_EQ(copy->Inside("/elsewhere"), "/elsewhere");
}

TEST(RunDirectory, ANameThatWouldLeaveTheFolderIsRefused) {
  for (const char* name : {"", ".", "..", "../a", "a/b", "-rf", "a b"}) {
    EXPECT_EQ(RunDirectory::Create("/nowhere", name, "").status().code(), Code::kInvalid) << name;
  }
  EXPECT_TRUE(CheckRunName("cfunc-1.5_b").ok());
  EXPECT_FALSE(CheckRunName(std::string(101, 'a')).ok());
}

TEST(MetricsLog, LinesAreAppendedAndAnUnfinishedOneIsCutOff) {
  TemporaryDirectory dir;
  const std::string path = dir / "metrics.jsonl";
  {
    auto log = MetricsLog::Open(path);
    ASSERT_TRUE(log->Append("{\"a\":1}").ok());
    EXPECT_EQ(log->Append("{\n}").code(), Code::kInvalid);
  }
  std::ofstream(path, std::ios::app) << "{\"b\":" << std::string(10'000, ' ');
  {
    auto log = MetricsLog::Open(path);
    ASSERT_TRUE(log->Append("{\"c\":3}").ok());
  }
  EXPECT_EQ(*ReadFileBounded(path, 1000), "{\"a\":1}\n{\"c\":3}\n");
}

}  // namespace
}  // namespace tidemill
