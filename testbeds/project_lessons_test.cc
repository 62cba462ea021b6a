#include "testbeds/project_lessons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "testbeds/cfunc.h"

namespace tidemill {
namespace {

using testing::Contains;
using testing::ElementsAre;

ProjectCase Tried(int operation, int helper, bool right) {
  return {{.operation = operation}, helper, right};
}

TEST(PossibleHelpers, AreAllOfThemWithoutACase) {
  EXPECT_THAT(PossibleHelpers({}, 3), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(PossibleHelpers, ARightCaseOfTheOperationDecidesAndTheLastOfTwo) {
  EXPECT_THAT(PossibleHelpers({Tried(3, 5, true), Tried(2, 6, true)}, 3), ElementsAre(5));
  EXPECT_THAT(PossibleHelpers({Tried(3, 5, true), Tried(3, 1, true)}, 3), ElementsAre(1));
  EXPECT_THAT(PossibleHelpers({Tried(3, 5, false), Tried(3, 5, true)}, 3), ElementsAre(5));
  EXPECT_THAT(PossibleHelpers({Tried(3, 5, true), Tried(3, 5, false)}, 3),
              ElementsAre(0, 1, 2, 3, 4, 6, 7));
}

TEST(PossibleHelpers, WhatFailedOrDoesAnotherOperationIsOut) {
  EXPECT_THAT(PossibleHelpers({Tried(3, 0, false), Tried(2, 6, true), Tried(1, 7, false)}, 3),
              ElementsAre(1, 2, 3, 4, 5, 7));
}

TEST(PossibleHelpers, WhereNothingIsLeftOtherOperationsAreNotBelieved) {
  std::vector<ProjectCase> cases;
  for (int helper = 0; helper < kProjectHelpers; ++helper) {
    cases.push_back(Tried(helper < 2 ? 3 : 4, helper, helper >= 2));
  }
  EXPECT_THAT(PossibleHelpers(cases, 3), ElementsAre(2, 3, 4, 5, 6, 7));
  for (ProjectCase& one : cases) one = Tried(3, one.helper, false);
  EXPECT_EQ(PossibleHelpers(cases, 3).size(), size_t{kProjectHelpers});
}

// The cases of a text as the protocol writes them.
std::vector<ProjectCase> ReadCases(std::string_view text) {
  std::vector<ProjectCase> cases;
  while (!text.empty()) {
    const size_t mark = text.find("<|");
    const size_t end = text.find('>', mark);
    const size_t answer = text.find(kProjectReturn) + std::string_view(kProjectReturn).size();
    const auto want = ReadProjectPrompt(text.substr(0, answer));
    const auto call = ReadProjectAnswer(text.substr(answer, mark - answer));
    EXPECT_TRUE(want && call) << text;
    if (!want || !call) return cases;
    cases.push_back({*want, call->helper, text.substr(mark, end + 1 - mark) == kCfuncEnd});
    text.remove_prefix(end + 1);
  }
  return cases;
}

TEST(ProjectLessons, EveryAnswerFollowsFromTheCasesBeforeIt) {
  const auto made = DemonstrateProjects({.count = 1500, .seed = 9});
  ASSERT_TRUE(made.ok());
  int failed = 0, decided = 0;
  for (const Demonstration& one : *made) {
    std::vector<ProjectCase> cases = ReadCases(one.prompt + one.completion);
    ASSERT_GE(cases.size(), 1u);
    ASSERT_LE(cases.size(), 9u);
    const ProjectCase answer = cases.back();
    cases.pop_back();
    const std::vector<int> possible = PossibleHelpers(cases, answer.want.operation);
    EXPECT_THAT(possible, Contains(answer.helper)) << one.prompt << one.completion;
    EXPECT_TRUE(answer.right);
    decided += possible.size() == 1;
    failed += std::any_of(cases.begin(), cases.end(), [](const auto& seen) { return !seen.right; });
  }
  EXPECT_GT(failed, 400);
  EXPECT_GT(decided, 600);
}

TEST(ProjectLessons, OptionsThatCannotBeMetAreNamed) {
  EXPECT_EQ(DemonstrateProjects({.count = 0}).status().code(), Code::kInvalid);
  EXPECT_EQ(DemonstrateProjects({.count = 3, .most_cases = 0}).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace tidemill
