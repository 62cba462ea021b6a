#include "run/run_scalars.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

TEST(RunScalars, EveryEvaluationIsAPointOfOneCurveOverTheSteps) {
  const auto at = [](const char* name) {
    const EvalCurve curve = EvalCurveOf(name, 100);
    return std::pair(curve.curve, curve.step);
  };
  using Point = std::pair<std::string, int64_t>;
  EXPECT_EQ(at("before"), Point("eval", 0));
  EXPECT_EQ(at("during-step-4"), Point("eval", 4)) << "not the step at which it was complete";
  EXPECT_EQ(at("after"), Point("eval", 100));
  EXPECT_EQ(at("before-greedy"), Point("eval_greedy", 0));
  EXPECT_EQ(at("after-turns-2"), Point("eval_turns-2", 100));

  RunScalars scalars;
  JournalEntry entry{0, "eval", {{"pass_rate", 0.5}, {"step", 7}}, {{"name", "during-step-4"}}};
  const ScalarPoint point = scalars.Take(entry);
  EXPECT_EQ(point.step, 4);
  EXPECT_EQ(point.scalars, (std::map<std::string, double>{{"eval/pass_rate", 0.5}}));
}

TEST(RunScalars, AStepStandsBesideTheTotalsOfTheSecondBeforeIt) {
  RunScalars scalars;
  EXPECT_TRUE(scalars.Take({0, "tick", {{"seconds", 2}}, {}}).scalars.empty());
  const ScalarPoint point = scalars.Take({0, "step", {{"step", 3}, {"loss", 0.25}}, {}});
  EXPECT_EQ(point.step, 3);
  EXPECT_EQ(point.scalars,
            (std::map<std::string, double>{{"step/loss", 0.25}, {"run/seconds", 2}}));
  EXPECT_TRUE(scalars.Take({0, "warning", {}, {{"what", "x"}}}).scalars.empty());
}

TEST(RunJournal, WholeNumbersAreWrittenAsWholeNumbers) {
  const JournalEntry entry{
      5, "step", {{"step", 4}, {"loss", 0.5}, {"tokens", 1e6}, {"big", 1e300}}, {}};
  const std::string text = entry.ToJson();
  EXPECT_NE(text.find("\"step\":4,"), std::string::npos) << text;
  EXPECT_NE(text.find("\"tokens\":1000000"), std::string::npos) << text;
  EXPECT_EQ(text.find("4.0"), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(text)["big"], 1e300);
}

}  // namespace
}  // namespace tidemill
