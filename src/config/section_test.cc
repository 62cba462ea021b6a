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
