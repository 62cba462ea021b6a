#include "skills/skill_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/skill_samples.h"

namespace tidemill {
namespace {

using Change = v1::SkillChange;
using testing::HasSubstr;

Status Anything(const SkillText&) {
  return Ok();
}

class Repository : public testing::Test {
 protected:
  // What became of the answer, applied.
  v1::SkillLesson Edit(const std::string& answer, const SkillCheck& check = Anything) {
    v1::SkillLesson lesson = LessonOf(++groups_);
    const auto edits = ParseSkillEdits(answer);
    TM_CHECK(edits.ok(), edits.status().ToString());
    EditSkills(repository_.Of("p"), *edits, limits_, check, lesson);
    repository_.Apply(groups_, lesson);
    lessons_.push_back(lesson);
    return lesson;
  }
  std::string Refusal(const std::string& answer, const SkillCheck& check = Anything) {
    const std::string before = repository_.Digest();
    const v1::SkillLesson lesson = Edit(answer, check);
    EXPECT_EQ(lesson.changes_size(), 0);
    EXPECT_EQ(repository_.Digest(), before) << "what is refused changes nothing";
    return lesson.refused_size() == 1 ? lesson.refused(0).reason() : "none";
  }
  const Skill& Of(const std::string& name) { return *repository_.Of("p").Find(name); }

  SkillLimits limits_;
  SkillRepository repository_;
  uint64_t groups_ = 0;
  std::vector<v1::SkillLesson> lessons_;
};

TEST_F(Repository, SkillsAreInsertedUpdatedMergedAndDeleted) {
  EXPECT_EQ(Edit(Insert("a", "one", "x\ny\n") + Insert("b", "two", "z\n") + kEnd).changes_size(),
            2);
  EXPECT_EQ(Of("a").version, 1u);
  Edit("=== update a\n@@ -5,2 +5,2 @@\n x\n-y\n+Y\n" + std::string(kEnd));
  EXPECT_EQ(Of("a").text.body, "x\nY\n");
  EXPECT_EQ(Of("a").version, 2u);
  ASSERT_EQ(Of("a").origins.size(), 2u);
  EXPECT_EQ(Of("a").origins[1].group, 2u);
  Edit("=== merge a b into c\n" + SkillMarkdown({"c", "both", "x\nY\nz\n"}) + kEnd);
  EXPECT_EQ(repository_.Of("p").skills().size(), 1u);
  EXPECT_EQ(Of("c").origins.size(), 3u) << "it came from the episodes of both";
  Edit("=== delete c\n" + std::string(kEnd));
  EXPECT_TRUE(repository_.Of("p").skills().empty());
}

TEST_F(Repository, AVersionIsNeverTwoTexts) {
  Edit(Insert("a", "one", "x\n") + kEnd);
  Edit("=== delete a\n" + std::string(kEnd));
  Edit(Insert("a", "other", "y\n") + kEnd);
  EXPECT_EQ(Of("a").version, 2u);
  Edit(Insert("b", "two", "z\n") + kEnd);
  Edit("=== merge a b into a\n" + SkillMarkdown({"a", "both", "y\nz\n"}) + kEnd);
  EXPECT_EQ(Of("a").version, 3u);
}

TEST_F(Repository, TheSameLessonsGiveTheSameRepository) {
  Edit(Insert("a", "one", "x\n") + Insert("b", "two", "z\n") + kEnd);
  Edit(
      "=== update a\n--- a/SKILL.md\n+++ b/SKILL.md\n@@ -3 +3 @@\n-description: one\n"
      "+description: uno\n" +
      std::string(kEnd));
  Edit("=== merge a b into b\n" + SkillMarkdown({"b", "both", "q\n"}) + kEnd);
  SkillRepository again;
  for (size_t i = 0; i < lessons_.size(); ++i) {
    v1::SkillLesson stored;
    ASSERT_TRUE(stored.ParseFromString(lessons_[i].SerializeAsString()));
    again.Apply(i + 1, stored);
  }
  EXPECT_EQ(again.Digest(), repository_.Digest());
  EXPECT_NE(again.Digest(), SkillRepository().Digest());
}

TEST_F(Repository, WhatCannotBeDoneIsRefusedWithItsReason) {
  Edit(Insert("a", "one", "x\n") + Insert("b", "two", "z\n") + kEnd);
  EXPECT_THAT(Refusal(Insert("a", "one", "x\n") + kEnd), HasSubstr("already"));
  EXPECT_THAT(Refusal(Insert("A", "one", "x\n") + kEnd), HasSubstr("a-z"));
  EXPECT_THAT(Refusal("=== insert c\nno head\n" + std::string(kEnd)), HasSubstr("line 1"));
  EXPECT_THAT(Refusal("=== insert c\n" + SkillMarkdown({"d", "x", "y\n"}) + kEnd),
              HasSubstr("names \"d\""));
  EXPECT_THAT(Refusal(Insert("c", "one", std::string(9000, 'x')) + kEnd), HasSubstr("9001 bytes"));
  EXPECT_THAT(Refusal("=== delete c\n" + std::string(kEnd)), HasSubstr("no skill"));
  EXPECT_THAT(Refusal("=== update c\n@@ -1 +1 @@\n-a\n+b\n" + std::string(kEnd)),
              HasSubstr("no skill"));
  EXPECT_THAT(Refusal("=== update a\n@@ -5 +5 @@\n-nowhere\n+b\n" + std::string(kEnd)),
              HasSubstr("SKILL.md"));
  EXPECT_THAT(Refusal("=== update a\n--- /dev/null\n+++ b/other.md\n@@ -0,0 +1 @@\n+b\n" +
                      std::string(kEnd)),
              HasSubstr("alone"));
  EXPECT_THAT(Refusal("=== update a\n@@ -2 +2 @@\n-name: a\n+name: z\n" + std::string(kEnd)),
              HasSubstr("names \"z\""));
  EXPECT_THAT(Refusal("=== merge a c into d\n" + SkillMarkdown({"d", "x", "y\n"}) + kEnd),
              HasSubstr("no skill \"c\""));
  EXPECT_THAT(Refusal("=== merge a a into d\n" + SkillMarkdown({"d", "x", "y\n"}) + kEnd),
              HasSubstr("each once"));
  Edit(Insert("c", "three", "z\n") + kEnd);
  EXPECT_THAT(Refusal("=== merge a b into c\n" + SkillMarkdown({"c", "x", "y\n"}) + kEnd),
              HasSubstr("not one of those"));
}

TEST_F(Repository, BoundsHold) {
  limits_ = {.skills = 2, .body_bytes = 100, .edits = 3};
  const v1::SkillLesson lesson = Edit(Insert("a", "one", "x\n") + Insert("b", "two", "x\n") +
                                      Insert("c", "three", "x\n") + "=== delete a\n" + kEnd);
  EXPECT_EQ(lesson.changes_size(), 2);
  ASSERT_EQ(lesson.refused_size(), 2);
  EXPECT_THAT(lesson.refused(0).reason(), HasSubstr("the most"));
  EXPECT_THAT(lesson.refused(1).reason(), HasSubstr("more than 3"));
}

TEST_F(Repository, TheCheckDecidesOnEveryTextThatWouldBeThere) {
  const SkillCheck check = [](const SkillText& skill) {
    return skill.body.find("bad") == std::string::npos ? Ok() : Invalid("bad");
  };
  EXPECT_EQ(Refusal(Insert("a", "one", "bad\n") + kEnd, check), "bad");
  Edit(Insert("a", "one", "x\n") + Insert("b", "one", "x\n") + kEnd, check);
  EXPECT_EQ(Refusal("=== update a\n@@ -5 +5 @@\n-x\n+bad\n" + std::string(kEnd), check), "bad");
  EXPECT_EQ(Refusal("=== merge a b into c\n" + SkillMarkdown({"c", "x", "bad\n"}) + kEnd, check),
            "bad");
}

TEST_F(Repository, ScopesDoNotKnowOfEachOther) {
  Edit(Insert("a", "one", "x\n") + kEnd);
  EXPECT_EQ(repository_.Of("q").Find("a"), nullptr);
  v1::SkillLesson other = LessonOf(++groups_, "q");
  EditSkills(repository_.Of("q"), *ParseSkillEdits("=== delete a\n=== end"), limits_, Anything,
             other);
  EXPECT_EQ(other.refused_size(), 1);
  repository_.Apply(groups_, other);
  EXPECT_NE(repository_.Of("p").Find("a"), nullptr);
}

TEST_F(Repository, WorthIsWhatMembersWithItGotAboveThoseWithoutIt) {
  Edit(Insert("a", "one", "x\n") + kEnd);
  // Two groups: a gain of 1 and of 0.5; one without others, which compares nothing.
  const double with[] = {2, 1, 2}, without[] = {0, 0.5, 0};
  const uint32_t others[] = {2, 1, 0};
  for (int i = 0; i < 3; ++i) {
    v1::SkillLesson lesson = LessonOf(++groups_);
    v1::SkillUse& use = *lesson.add_uses();
    use.mutable_skill()->set_name("a");
    use.mutable_skill()->set_version(1);
    use.set_shown(i == 1 ? 1 : 2), use.set_solved(1), use.set_reward(with[i]);
    use.set_others(others[i]), use.set_others_reward(without[i]);
    repository_.Apply(groups_, lesson);
  }
  const SkillUses& uses = Of("a").uses;
  EXPECT_EQ(uses.shown, 5u);
  EXPECT_EQ(uses.solved, 3u);
  EXPECT_EQ(uses.compared, 2u);
  EXPECT_DOUBLE_EQ(uses.worth().mean, 0.75);
  // The standard deviation of 1 and 0.5 is 0.3536, over the root of 2 0.25.
  EXPECT_NEAR(uses.worth().half, 1.96 * 0.25, 1e-9);
  EXPECT_LT(SkillUses().worth().half, 0);
}

}  // namespace
}  // namespace tidemill
