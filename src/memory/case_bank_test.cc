#include "memory/case_bank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "testing/memory_samples.h"

namespace tidemill {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

TEST(CaseBank, TheSameRecordsGiveTheSameBytes) {
  const auto records = RandomRecords(3, 60);
  CaseBank one({.capacity = 40}), two({.capacity = 40});
  for (size_t i = 0; i < records.size(); ++i) one.Apply(i + 1, records[i]);
  for (size_t i = 0; i < records.size(); ++i) two.Apply(i + 1, records[i]);
  EXPECT_EQ(one.Digest(), two.Digest());
  const CaseQuery query{.scope = "here", .prompt = "red sum of all"};
  const CaseRequest request{.how = Retrieval::kLearned, .members = 4, .seed = 9};
  EXPECT_EQ(one.Choose(query, request), two.Choose(query, request));
  two.Apply(1000, records[0]);
  EXPECT_NE(one.Digest(), two.Digest());
}

TEST(CaseBank, NearDuplicatesAreOneCase) {
  CaseBank bank({});
  bank.Apply(1, SampleRecord(1, 0, "Sort the list!", "a", true));
  const BankChange same = bank.Apply(2, SampleRecord(2, 0, "sort the  list", "a", true));
  EXPECT_EQ(same.merged_into, 1u);
  EXPECT_EQ(bank.Find(1)->copies, 2u);
  // Another answer, verdict, prompt or scope is another case.
  EXPECT_TRUE(bank.Apply(3, SampleRecord(3, 0, "sort the list", "b", true)).kept);
  EXPECT_TRUE(bank.Apply(4, SampleRecord(4, 0, "sort the list", "a", false)).kept);
  EXPECT_TRUE(bank.Apply(5, SampleRecord(5, 0, "sort the tree", "a", true)).kept);
  v1::CaseRecord elsewhere = SampleRecord(6, 0, "sort the list", "a", true);
  elsewhere.set_scope("there");
  EXPECT_TRUE(bank.Apply(6, elsewhere).kept);
}

TEST(CaseBank, OverItsBoundItForgetsTheLeastUsefulThenTheOldest) {
  CaseBank bank({.capacity = 3});
  bank.Apply(1, SampleRecord(1, 0, "red", "a", true));
  bank.Apply(2, SampleRecord(2, 0, "green", "b", true));
  bank.Apply(3, SampleRecord(3, 0, "blue", "c", true));
  // Whoever was shown case 2 failed, who was shown case 1 did not. The pair is merged away.
  bank.Apply(4, SampleRecord(4, 0, "red", "a", true, {1}));
  bank.Apply(5, SampleRecord(4, 1, "red", "x", false, {2}));
  EXPECT_EQ(bank.Find(2), nullptr) << "the least useful goes for case 5";
  ASSERT_NE(bank.Find(1), nullptr);
  EXPECT_GT(bank.values().Worth(1).mean, 0);
  // Of cases nobody has an opinion on the oldest goes.
  const BankChange change = bank.Apply(6, SampleRecord(6, 0, "product", "d", true));
  EXPECT_EQ(change.forgotten, 3u);
}

TEST(CaseBank, CasesStayInTheirScope) {
  CaseBank bank({});
  v1::CaseRecord other = SampleRecord(1, 0, "sort the list", "secret", true);
  other.set_scope("tenant b");
  other.mutable_key()->Add(1.0f);
  bank.Apply(1, other);
  for (const Retrieval how : {Retrieval::kLexical, Retrieval::kHidden, Retrieval::kNewest,
                              Retrieval::kRandom, Retrieval::kLearned}) {
    const CaseQuery query{.scope = "here", .prompt = "sort the list", .key = {1.0f}};
    EXPECT_THAT(bank.Choose(query, {.how = how})[0], IsEmpty());
  }
}

TEST(CaseBank, ATaskIsNotShownItsOwnCasesWhereThatIsAsked) {
  CaseBank bank({});
  for (uint64_t i = 1; i <= 40; ++i) {
    bank.Apply(i, SampleRecord(i, 0, "sort list number " + std::to_string(i), "a", true));
  }
  for (const Retrieval how :
       {Retrieval::kLexical, Retrieval::kNewest, Retrieval::kRandom, Retrieval::kLearned}) {
    CaseQuery query{.scope = "here", .prompt = "sort list number 7"};
    const CaseRequest request{.how = how, .cases = 40, .explore = false};
    if (how == Retrieval::kLexical) {
      EXPECT_EQ(bank.Choose(query, request)[0][0], 7u);
    }
    query.not_task = "task-7";
    EXPECT_THAT(bank.Choose(query, request)[0], Not(Contains(7u)));
    EXPECT_THAT(bank.Choose(query, request)[0], Not(IsEmpty()));
  }
}

TEST(CaseBank, NewestFirstPrefersWhatWasLearnedLast) {
  CaseBank bank({});
  bank.Apply(1, SampleRecord(1, 0, "sort the list", "old", true));
  bank.Apply(2, SampleRecord(2, 0, "sort the list", "new", true));
  const CaseQuery query{.scope = "here", .prompt = "sort the list"};
  EXPECT_THAT(bank.Choose(query, {.how = Retrieval::kNewest})[0], ElementsAre(2, 1));
  bank.Apply(3, SampleRecord(3, 0, "sort the list", "old", true));
  EXPECT_THAT(bank.Choose(query, {.how = Retrieval::kNewest})[0], ElementsAre(1, 2));
}

TEST(CaseBank, PlacesThatAreLeftGoToWhatWasRightLast) {
  CaseBank bank({});
  bank.Apply(1, SampleRecord(1, 0, "sort the list", "a", false));
  bank.Apply(2, SampleRecord(2, 0, "product", "b", true));
  bank.Apply(3, SampleRecord(3, 0, "tree", "c", true));
  bank.Apply(4, SampleRecord(4, 0, "blue", "d", false));
  const CaseQuery query{.scope = "here", .prompt = "sort the list"};
  EXPECT_THAT(bank.Choose(query, {.cases = 2})[0], ElementsAre(1, 3));
  EXPECT_THAT(bank.Choose(query, {.cases = 8})[0], ElementsAre(1, 3, 2));
}

TEST(CaseBank, WhatWasRightAndFailsLaterIsOutdatedWithAllBeforeIt) {
  CaseBank bank({});
  for (uint64_t i = 1; i <= 8; ++i) {  // so that "call" is in most answers and tells nothing
    bank.Apply(
        i, SampleRecord(i, 0, "blue " + std::to_string(i), "call other" + std::to_string(i), true));
  }
  bank.Apply(11, SampleRecord(11, 0, "sort the list quickly", "call x", false));
  bank.Apply(12, SampleRecord(12, 0, "sort the list now", "call y", true));
  EXPECT_EQ(bank.Find(12)->void_until, 0u);
  bank.Apply(13, SampleRecord(13, 0, "sort the list again", "call y", false));
  EXPECT_EQ(bank.Find(12)->void_until, bank.Find(12)->newest);
  EXPECT_GE(bank.Find(11)->void_until, bank.Find(11)->newest);
  EXPECT_EQ(bank.Find(13)->void_until, 0u);
  EXPECT_EQ(bank.Find(3)->void_until, 0u);
  const CaseQuery query{.scope = "here", .prompt = "sort the list"};
  const auto best = bank.Choose(query, {.how = Retrieval::kLearned, .explore = false})[0];
  EXPECT_THAT(best, Not(Contains(12u)));
  EXPECT_THAT(best, Contains(13u));
}

TEST(CaseBank, OfCasesThatSayTheSameOneIsShown) {
  CaseBank bank({});
  bank.Apply(1, SampleRecord(1, 0, "sort the list of 3", "call x 3", true));
  bank.Apply(2, SampleRecord(2, 0, "sort the list of 4", "call x 4", true));
  bank.Apply(3, SampleRecord(3, 0, "sort the list of 4", "call y 4", false));
  bank.Apply(4, SampleRecord(4, 0, "blue", "call y", true));
  bank.Apply(5, SampleRecord(5, 0, "blue", "call z", true));
  const CaseQuery query{.scope = "here", .prompt = "sort the list of 4"};
  EXPECT_THAT(bank.Choose(query, {.how = Retrieval::kLexical})[0], ElementsAre(3, 2, 5));
}

TEST(CaseBank, AFailureOfAnotherKindOfTaskIsNotShown) {
  CaseBank bank({});
  bank.Apply(1, SampleRecord(1, 0, "colour of the sky now", "x", false));
  bank.Apply(2, SampleRecord(2, 0, "length of the river now", "y", false));
  const CaseQuery query{.scope = "here", .prompt = "length of the river"};
  for (const Retrieval how : {Retrieval::kLexical, Retrieval::kNewest, Retrieval::kLearned}) {
    EXPECT_THAT(bank.Choose(query, {.how = how, .explore = false})[0], ElementsAre(2));
  }
}

TEST(CaseBank, AfterASurpriseWhatWasRightElsewhereIsInDoubtUntilItIsSeenAgain) {
  CaseBank bank({});
  bank.Apply(1, SampleRecord(1, 0, "sort the list", "x", true));
  bank.Apply(2, SampleRecord(2, 0, "order everything", "x", true));
  bank.Apply(3, SampleRecord(3, 0, "length of a river", "y", true));
  bank.Apply(4, SampleRecord(4, 0, "colour that skies have", "z", true));
  const CaseQuery asked{.scope = "here", .prompt = "temperature"};
  const CaseRequest best{.how = Retrieval::kLearned, .explore = false};
  EXPECT_THAT(bank.Choose(asked, best)[0], ElementsAre(4, 3, 2));
  bank.Apply(5, SampleRecord(5, 0, "sort the list", "x", false));
  // What the answer was right for is outdated, in other words too. The rest is in doubt; for a task
  // of its own kind it is still the best that is known.
  EXPECT_EQ(bank.Find(2)->void_until, bank.Find(2)->newest);
  EXPECT_THAT(bank.Choose(asked, best)[0], IsEmpty());
  EXPECT_THAT(bank.Choose({.scope = "here", .prompt = "length of a river"}, best)[0],
              ElementsAre(3));
  bank.Apply(6, SampleRecord(6, 0, "length of a river", "y", true));
  EXPECT_THAT(bank.Choose(asked, best)[0], ElementsAre(3));
  // Another answer of that time fails as well: that is no news.
  bank.Apply(7, SampleRecord(7, 0, "colour that skies have", "z", false));
  EXPECT_THAT(bank.Choose(asked, best)[0], ElementsAre(3));
}

TEST(CaseBank, FailuresAreLeftOutWhereTheyAreNotWanted) {
  CaseBank bank({.failures = false});
  EXPECT_FALSE(bank.Apply(1, SampleRecord(1, 0, "sort", "a", false)).kept);
  EXPECT_TRUE(bank.Apply(2, SampleRecord(1, 1, "sort", "b", true)).kept);
}

TEST(CaseBank, LearnedStopsShowingWhatMisleads) {
  CaseBank bank({});
  uint64_t number = 0;
  bank.Apply(++number, SampleRecord(1, 0, "sort the list", "stale", true));
  bank.Apply(++number, SampleRecord(2, 0, "sort the list", "right", true));
  // Who is shown case 1 fails, who is shown case 2 passes: so it is in every group.
  for (uint64_t group = 3; group < 40; ++group) {
    const CaseQuery query{.scope = "here", .prompt = "sort the list"};
    const auto sets = bank.Choose(query, {.how = Retrieval::kLearned, .members = 2, .seed = group});
    for (uint32_t member = 0; member < 2; ++member) {
      const std::set<uint64_t> shown(sets[member].begin(), sets[member].end());
      const bool solved = shown.count(2) != 0 && shown.count(1) == 0;
      bank.Apply(++number, SampleRecord(group, member, "sort the list", solved ? "right" : "stale",
                                        solved, {shown.begin(), shown.end()}));
    }
  }
  const CaseQuery query{.scope = "here", .prompt = "sort the list"};
  const auto best = bank.Choose(query, {.how = Retrieval::kLearned, .explore = false})[0];
  EXPECT_THAT(best, Contains(2u));
  EXPECT_THAT(best, Not(Contains(1u)));
}

TEST(CaseValues, WhatAllMembersWereShownGetsNoCredit) {
  CaseValues values;
  const CaseFeatures features = FeaturesOf({.solved = true, .similarity = 1});
  const CaseFeatures before = values.weights();
  values.Learn({{1, {{1, features}}}, {0, {{1, features}}}});
  EXPECT_EQ(values.weights(), before);
  EXPECT_EQ(values.Worth(1).mean, 0);
  EXPECT_EQ(values.Find(1)->shown, 2u);
}

TEST(CaseValues, CreditGoesToTheCaseThatMadeTheDifference) {
  CaseValues values;
  const CaseFeatures features = FeaturesOf({.solved = true, .similarity = 0.5});
  for (int i = 0; i < 20; ++i) {
    values.Learn({{1, {{1, features}, {2, features}}}, {0, {{1, features}, {3, features}}}});
  }
  EXPECT_GT(values.Worth(2).mean, 0.05);
  EXPECT_LT(values.Worth(3).mean, -0.05);
  EXPECT_EQ(values.Worth(1).mean, 0);
  EXPECT_LT(values.Worth(2).half, CaseValues().Worth(2).half);
}

}  // namespace
}  // namespace tidemill
