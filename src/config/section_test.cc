#include "config/section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Rule {
  TM_SECTION("");
  TM_KEY(std::string, name, "", {.doc = "Its name", .required = true});
  TM_KEY(double, weight, 0.5, {.doc = "Its weight", .min = 0, .max = 1});
};

struct SampleSection {
  TM_SECTION("sample");
  TM_KEY(uint32_t, size, 8, {.doc = "Its size", .min = 1, .max = 10});
  TM_NAMED_KEY("template", std::string, form, "full",
               {.doc = "Its form", .choices = {"full", "short"}});

  // Anything may stand between.
  bool small() const { return size < 4; }

  TM_KEY(KeyNumbers, weights, (KeyNumbers{{"a", 1.0}, {"b", 2.0}}), {.doc = "Its weights"});
  TM_KEY(milliseconds, wait, milliseconds(250), {.doc = "Its wait"});
  TM_TABLES(Rule, rules, {.doc = "Its rules", .max = 2});
};

// [kind.NAME]
struct Kind {
  std::string name;
  TM_SECTION("");
  TM_KEY(bool, on, true, {.doc = "Whether it is on"});
  TM_KEY(std::optional<double>, rate, {}, {.doc = "Its rate", .min = 0, .max = 1});
  TM_KEY(KeyWords, words, {}, {.doc = "Its words"});
};

struct KindsTest : testing::Test {
  KindsTest() { BindNamedTables("kind", kinds, {.doc = "Kinds", .max = 2}, binder); }
  std::vector<Kind> kinds;
  Binder binder;
};

TEST_F(KindsTest, TablesHaveTheirNamesAndKeysThatNobodyGaveHaveNoValue) {
  ASSERT_EQ(binder.ToToml(""), "") << "without one there is nothing to save";
  const std::string toml = "[kind.b]\nrate = 0.5\n[kind.a]\non = false\nwords = [\"x\"]\n";
  const Status loaded = binder.LoadText(toml, "run.toml");
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].name, "a");
  EXPECT_FALSE(kinds[0].on);
  EXPECT_FALSE(kinds[0].rate.has_value());
  EXPECT_THAT(*kinds[0].words, ElementsAre("x"));
  EXPECT_EQ(kinds[1].rate, 0.5);
  const std::string saved = binder.ToToml("");
  EXPECT_EQ(saved, "\n[kind.a]\non = false\nwords = [\"x\"]\n\n[kind.b]\non = true\nrate = 0.5\n");
  ASSERT_TRUE(binder.LoadText(saved, "saved.toml").ok());
  EXPECT_EQ(binder.ToToml(""), saved);
  EXPECT_THAT(binder.ToMarkdown(), HasSubstr("| `kind.NAME.rate` | number |  | 0 to 1 | Its rate"));
}

TEST_F(KindsTest, WhatIsWrongNamesTheTable) {
  EXPECT_THAT(binder.LoadText("[kind.a]\nrate = 2\n", "run.toml").message(),
              HasSubstr("run.toml:2: kind.a.rate: got 2"));
  EXPECT_THAT(binder.LoadText("[kind.a]\nrat = 2\n", "run.toml").message(), HasSubstr("rate"));
  EXPECT_THAT(binder.LoadText("kind = 3\n", "run.toml").message(), HasSubstr("[kind.NAME]"));
  EXPECT_THAT(binder.LoadText("[[kind]]\non = true\n", "run.toml").message(),
              HasSubstr("[kind.NAME]"));
  EXPECT_THAT(binder.LoadText("[kind.a]\n[kind.b]\n[kind.c]\n", "run.toml").message(),
              HasSubstr("too many"));
}

TEST_F(KindsTest, AKeyIsSetByItsPathAlsoOfATableThatIsNotThereYet) {
  ASSERT_TRUE(binder.Set("kind.b.rate=0.25").ok());
  ASSERT_TRUE(binder.Set("kind.a.words=x,y").ok());
  ASSERT_TRUE(binder.Set("kind.b.on=false").ok());
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].name, "a");
  EXPECT_THAT(*kinds[0].words, ElementsAre("x", "y"));
  EXPECT_EQ(kinds[1].rate, 0.25);
  EXPECT_FALSE(kinds[1].on);
  EXPECT_THAT(binder.Set("kind.b=3").message(), HasSubstr("kind.NAME.KEY"));
  EXPECT_THAT(binder.Set("kind.b.rate=7").message(), HasSubstr("kind.b"));
  EXPECT_THAT(binder.Set("kind.c.on=true").message(), HasSubstr("too many"));
}

struct SampleOptions : SampleSection {
  int more = 7;
};

TEST(Section, ItsKeysAreBoundInTheOrderOfTheirLines) {
  SampleSection sample;
  Binder binder;
  BindSection(sample, binder);
  EXPECT_THAT(binder.Names(), ElementsAre("sample.size", "sample.template", "sample.weights",
                                          "sample.wait", "sample.rules"));
  const std::string table = binder.ToMarkdown();
  EXPECT_THAT(table, HasSubstr("| `sample.size` | whole number | `8` | 1 to 10 | Its size |"));
  EXPECT_THAT(table, HasSubstr("`\"250ms\"`"));
}

TEST(Section, AValueReachesItsField) {
  SampleSection sample;
  Binder binder;
  BindSection(sample, binder);
  const Status loaded = binder.LoadText(
      "[sample]\nsize = 3\ntemplate = \"short\"\n[[sample.rules]]\nname = \"r\"\n", "run.toml");
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  EXPECT_TRUE(sample.small());
  EXPECT_EQ(sample.form, "short");
  EXPECT_EQ(sample.weights.at("b"), 2.0);
  ASSERT_EQ(sample.rules.size(), 1u);
  EXPECT_EQ(sample.rules[0].name, "r");
  EXPECT_EQ(sample.rules[0].weight, 0.5);
  EXPECT_THAT(binder.Set("sample.size=11").message(), HasSubstr("sample.size"));
}

TEST(Section, OptionsTakeWhatItSays) {
  SampleSection sample;
  sample.size = 2;
  const auto options = OptionsWith<SampleOptions>(sample);
  EXPECT_EQ(options.size, 2u);
  EXPECT_EQ(options.more, 7);
}

}  // namespace
}  // namespace tidemill
