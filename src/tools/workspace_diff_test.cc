#include "tools/workspace_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.h"
#include "tools/patch.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

Workspace Files(const std::map<std::string, std::string>& contents) {
  Workspace files;
  for (const auto& [path, content] : contents) files[path].content = content;
  return files;
}

TEST(WorkspaceDiff, ShowsWhatWasChangedAddedAndRemovedAndNothingElse) {
  EXPECT_EQ(
      WorkspaceDiff(Files({{"same", "x\n"}, {"gone.c", "int a;\n"}, {"m.c", "1\n2\n3\n4\n5\n"}}),
                    Files({{"same", "x\n"}, {"new.c", "int b;\n"}, {"m.c", "1\n2\n3\nfour\n5\n"}}),
                    10'000),
      "--- a/gone.c\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-int a;\n"
      "--- a/m.c\n+++ b/m.c\n@@ -1,5 +1,5 @@\n 1\n 2\n 3\n-4\n+four\n 5\n"
      "--- /dev/null\n+++ b/new.c\n@@ -0,0 +1,1 @@\n+int b;\n");
  EXPECT_EQ(WorkspaceDiff(Files({{"a", "x"}}), Files({{"a", "x"}}), 100), "");
}

TEST(WorkspaceDiff, FilesThatAreNoTextAreNamedAndALongDiffIsCut) {
  const std::string zero("\0\1", 2);
  EXPECT_EQ(WorkspaceDiff({}, Files({{"a.out", zero}}), 100),
            "Binary files /dev/null and b/a.out differ\n");
  const std::string cut = WorkspaceDiff({}, Files({{"a", std::string(500, 'x')}}), 100);
  EXPECT_LT(cut.size(), 120u);
  EXPECT_THAT(cut, HasSubstr("[cut]"));
}

// The reference: what the diff says, put to work by the code that reads the model's patches.
TEST(WorkspaceDiff, AppliedAsAPatchItMakesTheOneFromTheOther) {
  Random random(20'231);
  for (int i = 0; i < 300; ++i) {
    std::string before, after;
    for (uint64_t n = random.Below(40); n > 0; --n) {
      before += std::string(1, static_cast<char>('a' + random.Below(6))) + "\n";
    }
    after = before;
    for (uint64_t n = 1 + random.Below(6); n > 0; --n) {
      const size_t at = 2 * random.Below(after.size() / 2 + 1);
      if (random.Chance(0.5) || at == after.size()) {
        after.insert(at, std::string(1, static_cast<char>('A' + random.Below(26))) + "\n");
      } else {
        after.erase(at, 2);
      }
    }
    if (before.empty() || after.empty() || before == after) continue;
    Workspace files = Files({{"f", before}});
    const std::string diff = WorkspaceDiff(files, Files({{"f", after}}), 100'000);
    const auto applied = ApplyPatch(diff, &files);
    ASSERT_TRUE(applied.ok()) << "seed 20231, round " << i << ": " << applied.status().ToString()
                              << "\n"
                              << diff;
    ASSERT_EQ(files["f"].content, after) << "seed 20231, round " << i << "\n" << diff;
  }
}

}  // namespace
}  // namespace tidemill
