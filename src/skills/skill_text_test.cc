#include "skills/skill_text.h"

#include <gtest/gtest.h>

#include "skills/skill_edit.h"

namespace tidemill {
namespace {

using Change = v1::SkillChange;

constexpr char kPlainSkill[] =
    "---\nname: read-logs\ndescription: Where logs are\n---\n\nLook in out/log.\n";

TEST(SkillText, ReadsNameDescriptionAndBody) {
  const auto skill = ParseSkill(kPlainSkill);
  ASSERT_TRUE(skill.ok()) << skill.status().ToString();
  EXPECT_EQ(skill->name, "read-logs");
  EXPECT_EQ(skill->description, "Where logs are");
  EXPECT_EQ(skill->body, "Look in out/log.\n");
  EXPECT_TRUE(CheckSkillText(*skill, 100).ok());
}

TEST(SkillText, WhatIsWrittenIsReadBack) {
  for (const std::string description :
       {"Plain words, (some) 1/2", "a: colon", "# comment", "\"quoted\" 'text'", "true", "null",
        "- a list", "back\\slash", "ends with:", "caf\xC3\xA9", "[x]"}) {
    const SkillText skill{"a-1", description, "text\n---\nname: other\n"};
    const auto again = ParseSkill(SkillMarkdown(skill));
    ASSERT_TRUE(again.ok()) << description << ": " << again.status().ToString();
    EXPECT_EQ(again->name, skill.name);
    EXPECT_EQ(again->description, description);
    EXPECT_EQ(again->body, skill.body);
  }
}

TEST(SkillText, SingleQuotesAreReadAsYamlDoes) {
  const auto skill = ParseSkill("---\nname: 'a'\ndescription: 'it''s: here'\n---\nb\n");
  ASSERT_TRUE(skill.ok()) << skill.status().ToString();
  EXPECT_EQ(skill->description, "it's: here");
}

TEST(SkillText, LineEndsOfOtherSystemsAreThoseOfThisOne) {
  const auto skill = ParseSkill("---\r\nname: a\r\ndescription: b\r\n---\r\n\r\nc \r\nd \r\n\r\n");
  ASSERT_TRUE(skill.ok()) << skill.status().ToString();
  EXPECT_EQ(skill->description, "b");
  EXPECT_EQ(skill->body, "c \nd\n");
  EXPECT_EQ(ParseSkill(SkillMarkdown(*skill))->body, skill->body);
}

TEST(SkillText, AHeadThatIsNotStrictIsRefused) {
  for (const char* text :
       {"", "name: a\n", "---\nname: a\n", "---\nname: a\n---\nb", "---\ndescription: a\n---\nb",
        "---\nname: a\nname: b\ndescription: c\n---\nd", "---\nname: a\nrun: rm\n---\n",
        "---\nname: a\ndescription: |\n  c\n---\nd", "---\nname: a\ndescription: b: c\n---\nd",
        "---\nname: a\ndescription: \"b\n---\nd", "---\nname: a\ndescription: 'b'c'\n---\nd"}) {
    const auto skill = ParseSkill(text);
    EXPECT_EQ(skill.status().code(), Code::kInvalid) << text;
  }
}

TEST(SkillText, NamesAreThoseOfFolders) {
  EXPECT_TRUE(CheckSkillName("a").ok());
  EXPECT_TRUE(CheckSkillName("read-logs-2").ok());
  for (const std::string name :
       {"", "A", "a_b", "a/b", "..", "-a", "a-", "a--b", "a b", "\xC3\xA9"}) {
    EXPECT_FALSE(CheckSkillName(name).ok()) << name;
  }
  EXPECT_FALSE(CheckSkillName(std::string(65, 'a')).ok());
}

TEST(SkillText, TextsThatDoNotBelongInAPromptAreRefused) {
  const auto check = [](const std::string& description, const std::string& body) {
    return CheckSkillText({"a", description, body}, 100);
  };
  EXPECT_TRUE(check("b", "c\n").ok());
  EXPECT_FALSE(check("", "c\n").ok());
  EXPECT_FALSE(check("two\nlines", "c\n").ok());
  EXPECT_FALSE(check("a <tag>", "c\n").ok());
  EXPECT_FALSE(check(std::string(1025, 'b'), "c\n").ok());
  EXPECT_FALSE(check("b", "\n").ok());
  EXPECT_FALSE(check("b", std::string(101, 'c')).ok());
  EXPECT_FALSE(check("b", "escape \x1b[2J\n").ok());
  EXPECT_FALSE(check("b", "turned \xE2\x80\xAE round\n").ok());
  EXPECT_FALSE(check("b", "no utf-8 \xFF\n").ok());
}

TEST(SkillEdits, AnAnswerIsOperationsBetweenItsWordsAndItsEnd) {
  const auto edits = ParseSkillEdits(
      "I think this helps.\n=== insert a\n---\nname: a\n\n=== update b\n@@ -1 +1 @@\n-x\n+y\n"
      "=== delete c\n=== merge d e into f\ntext\n=== end\nbye === insert z\n");
  ASSERT_TRUE(edits.ok()) << edits.status().ToString();
  ASSERT_EQ(edits->size(), 4u);
  EXPECT_EQ((*edits)[0].kind, Change::KIND_INSERT);
  EXPECT_EQ((*edits)[0].text, "---\nname: a\n\n");
  EXPECT_EQ((*edits)[1].kind, Change::KIND_UPDATE);
  EXPECT_EQ((*edits)[1].text, "@@ -1 +1 @@\n-x\n+y\n");
  EXPECT_EQ((*edits)[2].name, "c");
  EXPECT_EQ((*edits)[3].from, (std::vector<std::string>{"d", "e"}));
  EXPECT_EQ((*edits)[3].name, "f");
  EXPECT_EQ(ParseSkillEdits("nothing to do\n=== end")->size(), 0u);
}

TEST(SkillEdits, AMalformedAnswerHasNoOperations) {
  for (const char* answer :
       {"", "=== insert a\ntext\n", "=== insert\nx\n=== end\n", "=== insert a b\nx\n=== end\n",
        "=== rename a b\n=== end\n", "=== merge a into b\nx\n=== end\n", "=== insert a\n=== end\n",
        "=== delete a\ntext\n=== end\n", "=== \n=== end\n", "=== update a\n \n=== end\n"}) {
    EXPECT_EQ(ParseSkillEdits(answer).status().code(), Code::kInvalid) << answer;
  }
}

}  // namespace
}  // namespace tidemill
