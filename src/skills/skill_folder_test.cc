#include "skills/skill_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "core/files.h"
#include "skills/skill_finder.h"
#include "testing/skill_samples.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  void Edit(const std::string& answer, const std::string& scope = "") {
    v1::SkillLesson lesson = LessonOf(++groups_, scope);
    EditSkills(
        repository_.Of(scope), ParseSkillEdits(answer).value(), {},
        [](const SkillText&) { return Ok(); }, lesson);
    TM_CHECK(lesson.refused().empty(), "refused");
    repository_.Apply(groups_, lesson);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      files.push_back(entry.path().lexically_relative(folder_).string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  TemporaryDirectory dir_;
  const std::string folder_ = dir_ / "skills";
  SkillRepository repository_;
  uint64_t groups_ = 0;
};

TEST_F(Folder, ItEqualsTheRepositoryWhateverWasThere) {
  Edit(Insert("a", "one", "x") + Insert("b", "two", "y") + kEnd);
  Edit(Insert("a", "other", "z") + kEnd, "project/1");
  ASSERT_TRUE(ExportSkills(repository_, folder_).ok());
  const std::vector<std::string> first = {
      "+project%2F1", "+project%2F1/a", "+project%2F1/a/SKILL.md", "a", "a/SKILL.md", "b",
      "b/SKILL.md"};
  EXPECT_EQ(Files(), first);
  EXPECT_EQ(*ReadFileBounded(folder_ + "/a/SKILL.md", 1000), SkillMarkdown({"a", "one", "x\n"}));
  // What a process left that was killed: a file half done, one of a skill that is gone.
  std::ofstream(folder_ + "/a/SKILL.md") << "---\nname";
  fs::create_directory(folder_ + "/c");
  std::ofstream(folder_ + "/c/SKILL.md") << "old";
  std::ofstream(folder_ + "/.SKILL.md.tmp") << "half";
  ASSERT_TRUE(ExportSkills(repository_, folder_).ok());
  EXPECT_EQ(Files(), first);
  EXPECT_EQ(*ReadFileBounded(folder_ + "/a/SKILL.md", 1000), SkillMarkdown({"a", "one", "x\n"}));
  Edit("=== delete b\n" + std::string(kEnd));
  ASSERT_TRUE(ExportSkills(repository_, folder_).ok());
  EXPECT_FALSE(fs::exists(folder_ + "/b"));
}

TEST_F(Folder, AFileThatIsAsItShouldBeIsNotTouched) {
  Edit(Insert("a", "one", "x") + kEnd);
  ASSERT_TRUE(ExportSkills(repository_, folder_).ok());
  struct stat before {
  }, after{};
  ASSERT_EQ(stat((folder_ + "/a/SKILL.md").c_str(), &before), 0);
  ASSERT_TRUE(ExportSkills(repository_, folder_).ok());
  ASSERT_EQ(stat((folder_ + "/a/SKILL.md").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(Folder, ALinkIsReplacedAndNotFollowed) {
  Edit(Insert("a", "one", "x") + kEnd);
  fs::create_directory(folder_);
  fs::create_directory(dir_ / "outside");
  std::ofstream(dir_ / "outside" + "/keep") << "kept";
  fs::create_directory_symlink(dir_ / "outside", folder_ + "/z");
  ASSERT_TRUE(ExportSkills(repository_, folder_).ok());
  EXPECT_FALSE(fs::exists(folder_ + "/z"));
  EXPECT_TRUE(fs::exists(dir_ / "outside" + "/keep"));
}

TEST_F(Folder, WhatIsExportedCanBeRead) {
  Edit(Insert("a", "one: \"x\"", "x") + Insert("b", "two", "y") + kEnd);
  Edit(Insert("c", "other", "z") + kEnd, "p");
  ASSERT_TRUE(ExportSkills(repository_, folder_).ok());
  const auto skills = ReadSkillFolder(folder_);
  ASSERT_TRUE(skills.ok()) << skills.status().ToString();
  ASSERT_EQ(skills->size(), 2u) << "those of other scopes are in a folder of their own";
  EXPECT_EQ(skills->at(0).description, "one: \"x\"");
  EXPECT_EQ(ReadSkillFolder(folder_ + "/" + ScopeFolder("p"))->at(0).name, "c");
  std::ofstream(folder_ + "/a/SKILL.md") << "no head";
  EXPECT_EQ(ReadSkillFolder(folder_).status().code(), Code::kInvalid);
}

TEST_F(Folder, ScopesNeverShareAFolder) {
  EXPECT_EQ(ScopeFolder(""), "");
  EXPECT_EQ(ScopeFolder("../x"), "+..%2Fx");
  EXPECT_NE(ScopeFolder("a%2F"), ScopeFolder("a/"));
  const std::string longer = std::string(300, 'a');
  EXPECT_NE(ScopeFolder(longer + "b"), ScopeFolder(longer + "c"));
  EXPECT_LE(ScopeFolder(longer).size(), 255u);
}

TEST_F(Folder, AThreadWritesTheNewestThatWaits) {
  {
    SkillFolderThread thread(folder_);
    for (int i = 0; i < 50; ++i) {
      Edit(Insert("s-" + std::to_string(i), "one", "x") + kEnd);
      thread.Write(repository_);
    }
  }
  EXPECT_EQ(ReadSkillFolder(folder_)->size(), 50u);
}

TEST_F(Folder, SkillsAreFoundByTheWordsTheyShareWithATask) {
  Edit(Insert("largest-factor", "the largest common factor", "use h5") +
       Insert("digits", "counts digits of a number", "use h2") + kEnd);
  SkillFinder finder;
  finder.Update("", repository_.Of(""));
  const std::string task = "largest common factor times 3";
  EXPECT_EQ(finder.Find("", task, 4), std::vector<std::string>{"largest-factor"});
  EXPECT_TRUE(finder.Find("other", task, 4).empty());
  EXPECT_EQ(finder.Find("", task, 4, /*all=*/true),
            (std::vector<std::string>{"largest-factor", "digits"}));
  EXPECT_EQ(finder.Find("", task, 1, /*all=*/true).size(), 1u);
  Edit("=== delete largest-factor\n" + std::string(kEnd));
  Edit("=== update digits\n@@ -5 +5 @@\n-use h2\n+largest digit: h1\n" + std::string(kEnd));
  finder.Update("", repository_.Of(""));
  EXPECT_EQ(finder.Find("", task, 4), std::vector<std::string>{"digits"});
}

}  // namespace
}  // namespace tidemill
