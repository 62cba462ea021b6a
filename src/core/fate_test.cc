#include "core/fate.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "core/failure_counters.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

TEST(Fate, EveryRowHasANameOfItsOwnThatIsReadBack) {
  std::set<std::string_view> names;
  for (const FateRow& row : kFates) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(FateNamed(row.name), row.fate);
    EXPECT_EQ(FateIsLive(row.name), row.live);
    EXPECT_FALSE(row.live && row.reissued) << row.name;
  }
  EXPECT_FALSE(FateNamed("Stored"));
  EXPECT_FALSE(FateIsLive("of a newer program"));
}

TEST(Fate, SqlKnowsTheLiveOnes) {
  EXPECT_EQ(Quoted(Fate::kTooOld), "'too_old'");
  EXPECT_EQ(LiveFatesSql(), "'stored', 'ready', 'used'");
}

TEST(Fate, ThePageOfTheStoreNamesEveryFate) {
  std::stringstream page;
  page << std::ifstream(SourceDir() + "/docs/store.md").rdbuf();
  for (const FateRow& row : kFates) {
    const std::string shown = "`" + std::string(row.name) + "`: " + std::string(row.meaning);
    EXPECT_NE(page.str().find(shown), std::string::npos) << shown;
  }
}

TEST(Failure, TheTextIsTheKindAndTheDetail) {
  EXPECT_EQ(FailureText(Failure::kEngine, "out of pages"), "engine: out of pages");
  EXPECT_EQ(FailureText(Failure::kNoVerdict), "no verdict");
}

TEST(Failure, EveryRowHasWordsAndAKeyOfItsOwn) {
  std::set<std::string_view> words, keys;
  for (const FailureRow& row : kFailures) {
    EXPECT_TRUE(words.insert(row.words).second) << row.words;
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_EQ(row.words.find(": "), std::string_view::npos) << "that is where the detail begins";
    EXPECT_EQ(FailureNamed(row.words), row.failure);
  }
  EXPECT_FALSE(FailureNamed("engine: out of pages"));
}

TEST(Failure, EachKindHasACounterOfItsOwn) {
  CounterSet set;
  FailureCounters failures(set, {.key = "failed_", .metric = "m", .help = "h"});
  failures.Add(Failure::kBoxLost);
  failures.Add(Failure::kBoxLost);
  ASSERT_EQ(set.all().size(), std::size(kFailures));
  for (const Counter* counter : set.all()) {
    const bool lost = counter->about().key == "failed_box_lost";
    EXPECT_EQ(counter->load(), lost ? 2u : 0u) << counter->about().key;
    if (lost) {
      EXPECT_EQ(counter->about().labels, (Labels{{"kind", "box_lost"}}));
    }
  }
  EXPECT_EQ(failures.of(Failure::kBoxLost), 2u);
}

}  // namespace
}  // namespace tidemill
