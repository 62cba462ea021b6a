#include "memory/memory_history.h"

#include <gtest/gtest.h>

#include "core/clock.h"
#include "store/run_db.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "testing/memory_samples.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

class MemoryHistoryTest : public testing::Test {
 protected:
  MemoryHistoryTest() : path_(folder_.path() + "/run.db") {
    auto db = RunDb::Open(path_, clock_);
    TM_CHECK(db.ok(), db.status().ToString());
    db_ = std::move(*db);
    Database::Options options;
    options.mode = Database::Mode::kRead;
    auto reader = Database::Open(path_, options);
    TM_CHECK(reader.ok(), reader.status().ToString());
    reader_ = std::move(*reader);
  }
  void Put(const std::vector<v1::CaseRecord>& records) {
    for (const v1::CaseRecord& record : records) {
      ASSERT_TRUE(db_->ApplyOne(PutCase{record}).ok());
    }
  }
  void ReadAll(MemoryHistory& history) {
    do {
      ASSERT_TRUE(history.Advance(*reader_, std::chrono::milliseconds(5)).ok());
    } while (!history.Complete());
  }

  TemporaryDirectory folder_;
  RealClock clock_;
  const std::string path_;
  std::unique_ptr<RunDb> db_;
  std::unique_ptr<Database> reader_;
};

TEST_F(MemoryHistoryTest, FollowsTheBankOfTheRunAndThinsItsCurve) {
  const auto records = RandomRecords(4, 300);
  const MemoryConfig options{.capacity = 50};
  MemoryHistory history(options);
  CaseBank bank(options);
  uint64_t number = 0, forgotten = 0;
  for (size_t begin = 0; begin < records.size(); begin += records.size() / 2) {
    const std::vector<v1::CaseRecord> some(records.begin() + begin,
                                           records.begin() + begin + records.size() / 2);
    Put(some);
    for (const v1::CaseRecord& record : some) {
      forgotten += bank.Apply(++number, record).forgotten != 0;
    }
    ReadAll(history);
    EXPECT_EQ(history.bank().Digest(), bank.Digest());
  }
  EXPECT_EQ(history.learned(), records.size());
  EXPECT_EQ(history.forgotten(), forgotten);
  EXPECT_GT(forgotten, 0u);
  EXPECT_EQ(history.gone().size(), std::min<size_t>(forgotten, MemoryHistory::kForgottenKept));
  const std::vector<GrowthPoint> growth = history.Growth();
  EXPECT_LE(growth.size(), MemoryHistory::kGrowthPoints + 1);
  EXPECT_GE(growth.size(), MemoryHistory::kGrowthPoints / 2);
  EXPECT_EQ(growth.back().learned, records.size());
  for (size_t i = 1; i < growth.size(); ++i) {
    EXPECT_GT(growth[i].learned, growth[i - 1].learned);
    EXPECT_GE(growth[i].at_ms, growth[i - 1].at_ms);
  }
}

TEST_F(MemoryHistoryTest, BeginsAnewWhereCasesWereErased) {
  Put(RandomRecords(5, 20));
  MemoryHistory history({});
  ReadAll(history);
  ASSERT_TRUE(db_->ApplyOne(EraseCases{.number = 3}).ok());
  ReadAll(history);
  EXPECT_EQ(history.learned(), 39u);
  EXPECT_EQ(history.bank().Find(3), nullptr);
}

}  // namespace
}  // namespace tidemill
