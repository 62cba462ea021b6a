#include "store/store_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/run_reader.h"
#include "store/sqlite.h"
#include "testing/faulty_vfs.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

// A client with its bell.
class Asker {
 public:
  Asker(StoreThread& store, size_t capacity) : port_(store.NewClient(capacity)) {
    port_->events().Attach(bell_);
  }
  void Submit(StoreOp op, uint64_t tag) { port_->Submit(std::move(op), tag); }
  std::vector<StoreDone> Wait(size_t answers) {
    std::vector<StoreDone> all;
    while (all.size() < answers) {
      bell_.Wait();
      for (StoreDone& done : port_->events().TakeAll()) all.push_back(std::move(done));
    }
    return all;
  }
  StoreDone Ask(StoreOp op) {
    Submit(std::move(op), 7);
    return Wait(1)[0];
  }

 private:
  Bell bell_;
  std::unique_ptr<StorePort> port_;
};

PutTrajectory Sample(uint64_t group, uint32_t tokens = 8) {
  return PutTrajectory{SampleTrajectory(SampleId(group, 0), tokens)};
}

class StoreThreadTest : public testing::Test {
 protected:
  std::unique_ptr<StoreThread> Start(const RunDb::Options& how = {}) {
    StoreThread::Options options;
    options.give_up_after = give_up_after_;
    options.backoff_first = milliseconds(1);
    options.backoff_max = milliseconds(2);
    return std::make_unique<StoreThread>(OpenDb(dir_ / "run.db", how), clock_, options);
  }
  uint64_t Stored() {
    auto reader = RunReader::Open(dir_ / "run.db");
    TM_CHECK(reader.ok(), reader.status().ToString());
    return (*reader)->Counts()->episodes;
  }

  TemporaryDirectory dir_;
  RealClock clock_;
  milliseconds give_up_after_{60'000};
};

TEST_F(StoreThreadTest, AnswersComeInTheOrderOfTheSubmissions) {
  auto store = Start();
  Asker asker(*store, 300);
  for (uint64_t i = 0; i < 300; ++i) asker.Submit(Sample(i + 1), i);
  const auto answers = asker.Wait(300);
  for (uint64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(answers[i].tag, i);
    EXPECT_TRUE(answers[i].status.ok());
  }
  EXPECT_EQ(Stored(), 300U);
  const auto stats = store->stats();
  EXPECT_EQ(stats.ops, 300U);
  EXPECT_LT(stats.transactions, 300U) << "one transaction for many";
  EXPECT_GT(store->busy().Busy(clock_.Now()).count(), 0);
}

TEST_F(StoreThreadTest, EachClientGetsItsOwnAnswers) {
  auto store = Start();
  Asker a(*store, 10), b(*store, 10);
  a.Submit(Sample(1), 11);
  b.Submit(ReserveVersion{0}, 22);
  EXPECT_EQ(a.Wait(1)[0].tag, 11U);
  const StoreDone done = b.Wait(1)[0];
  EXPECT_EQ(done.tag, 22U);
  EXPECT_EQ(done.version, 1U);
}

TEST_F(StoreThreadTest, AnOpThatIsWrongFailsAlone) {
  auto store = Start();
  Asker asker(*store, 10);
  EXPECT_TRUE(asker.Ask(Sample(1)).status.ok());
  EXPECT_EQ(asker.Ask(Sample(1)).status.code(), Code::kExists);
  EXPECT_EQ(asker.Ask(PutVerdict{SampleVerdict(SampleId(2, 0), 1)}).status.code(), Code::kNotFound);
  EXPECT_TRUE(store->health().ok());
}

TEST_F(StoreThreadTest, StoppingWritesWhatWasSubmitted) {
  auto store = Start();
  Asker asker(*store, 100);
  for (uint64_t i = 0; i < 100; ++i) asker.Submit(Sample(i + 1), i);
  store->Stop();
  EXPECT_EQ(Stored(), 100U);
  EXPECT_EQ(asker.Wait(100).size(), 100U);
}

TEST_F(StoreThreadTest, OpsOfAClientThatIsGoneAreStillWritten) {
  auto store = Start();
  {
    auto port = store->NewClient(50);
    for (uint64_t i = 0; i < 50; ++i) port->Submit(Sample(i + 1), i);
  }
  store->Stop();
  EXPECT_EQ(Stored(), 50U);
}

TEST_F(StoreThreadTest, ManyClientsAtOnceLoseNothing) {
  auto store = Start();
  std::vector<std::thread> threads;
  std::atomic<int> acknowledged{0};
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Asker asker(*store, 16);
      for (uint64_t round = 0; round < 8; ++round) {
        for (uint64_t i = 0; i < 16; ++i) asker.Submit(Sample(1 + t * 1000 + round * 16 + i), i);
        for (const StoreDone& done : asker.Wait(16)) acknowledged += done.status.ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(acknowledged, 4 * 8 * 16);
  EXPECT_EQ(Stored(), 4U * 8 * 16);
}

using StoreThreadDeathTest = StoreThreadTest;

TEST_F(StoreThreadDeathTest, MoreThanTheCapacityIsABrokenContract) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("TMPDIR", dir_.path().c_str(), 1);  // the process that dies leaves its folder in ours
  EXPECT_DEATH(
      {
        auto store = Start();
        auto port = store->NewClient(1);
        for (uint64_t i = 1; i < 1000; ++i) port->Submit(Sample(i), i);
      },
      "more than its capacity|more often than it was asked");
  unsetenv("TMPDIR");
}

TEST_F(StoreThreadTest, WhileTheDiskIsFullNothingIsAcknowledgedAndThenEverything) {
  FaultyVfs disk;
  RunDb::Options how;
  how.vfs = disk.name();
  auto store = Start(how);
  Asker asker(*store, 20);
  ASSERT_TRUE(asker.Ask(Sample(1)).status.ok());
  disk.write_error = SQLITE_FULL;
  for (uint64_t i = 2; i <= 20; ++i) asker.Submit(Sample(i), i);
  while (store->stats().retries < 3) std::this_thread::yield();
  EXPECT_EQ(store->stats().ops, 1U) << "an answer was given while nothing could be written";
  EXPECT_THAT(store->health().message(), HasSubstr("no space left"));
  disk.write_error = SQLITE_OK;
  for (const StoreDone& done : asker.Wait(19)) EXPECT_TRUE(done.status.ok());
  EXPECT_TRUE(store->health().ok());
  EXPECT_EQ(Stored(), 20U);
  store.reset();
}

TEST_F(StoreThreadTest, ADiskThatCannotSyncIsReportedWithPathAndReason) {
  FaultyVfs disk;
  RunDb::Options how;
  how.vfs = disk.name();
  give_up_after_ = milliseconds(20);
  auto store = Start(how);
  Asker asker(*store, 4);
  ASSERT_TRUE(asker.Ask(Sample(1)).status.ok());
  disk.sync_error = SQLITE_IOERR_FSYNC;
  const StoreDone done = asker.Ask(Sample(2));
  EXPECT_EQ(done.status.code(), Code::kUnavailable);
  EXPECT_THAT(done.status.message(), HasSubstr(dir_ / "run.db"));
  EXPECT_THAT(done.status.message(), HasSubstr("writing the database failed"));
  EXPECT_EQ(store->stats().given_up, 1U);
  EXPECT_EQ(Stored(), 1U) << "what was reported as failed is visible";
  disk.sync_error = SQLITE_OK;
  EXPECT_TRUE(asker.Ask(Sample(2)).status.ok()) << "the same op again, when the disk works again";
  store.reset();
}

TEST_F(StoreThreadTest, AFullDatabaseKeepsWhatItHas) {
  RunDb::Options how;
  how.max_pages = 60;
  give_up_after_ = milliseconds(5);
  auto store = Start(how);
  Asker asker(*store, 4);
  uint64_t acknowledged = 0;
  Status last;
  while (acknowledged < 1000) {
    last = asker.Ask(Sample(acknowledged + 1, 2000)).status;
    if (!last.ok()) break;
    ++acknowledged;
  }
  EXPECT_EQ(last.code(), Code::kUnavailable);
  EXPECT_THAT(last.message(), HasSubstr("no space left for the database"));
  EXPECT_GT(acknowledged, 5U);
  store.reset();
  EXPECT_EQ(Stored(), acknowledged);
  EXPECT_TRUE(OpenDb(dir_ / "run.db")->CheckIntegrity().ok());
}

TEST_F(StoreThreadTest, ALockOfAnotherProcessIsWaitedFor) {
  RunDb::Options how;
  how.busy_timeout_ms = 1;
  auto store = Start(how);
  Asker asker(*store, 4);
  auto other = Database::Open(dir_ / "run.db", {});
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*other)->Exec("BEGIN IMMEDIATE").ok());
  asker.Submit(Sample(1), 1);
  while (store->stats().retries < 2) std::this_thread::yield();
  EXPECT_THAT(store->health().message(), HasSubstr("another process has locked the database"));
  ASSERT_TRUE((*other)->Exec("ROLLBACK").ok());
  EXPECT_TRUE(asker.Wait(1)[0].status.ok());
}

TEST_F(StoreThreadTest, StoppingWithABrokenDiskDoesNotHang) {
  FaultyVfs disk;
  RunDb::Options how;
  how.vfs = disk.name();
  auto store = Start(how);
  Asker asker(*store, 4);
  disk.write_error = SQLITE_IOERR_WRITE;
  asker.Submit(Sample(1), 1);
  store->Stop();
  EXPECT_EQ(asker.Wait(1)[0].status.code(), Code::kUnavailable);
  disk.write_error = SQLITE_OK;
  store.reset();
}

}  // namespace
}  // namespace tidemill
