#include "core/fate.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

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

}  // namespace
}  // namespace tidemill
