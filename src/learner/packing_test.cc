#include "learner/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/random.h"
#include "core/token_support.h"
#include "testing/learner_samples.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Sample TwoTurns() {
  return MakeSample(7, 0, 1.0, {10, 11},
                    {{{1, 2, 3}, {-0.1f, -0.2f, -0.3f}, {{4, 2}, {5, 1}}, {20, 21}, ""},
                     {{4, 5}, {-0.4f, -0.5f}, {{6, 2}}, {30}, ""}});
}

TEST(Flatten, LaysPromptTurnsAndObservationsEndToEndAndMasksWhatTheModelDidNotWrite) {
  auto row = Flatten(TwoTurns(), {.lag_of = [](uint64_t version) { return 6 - version; }});
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_THAT(row->ids, ElementsAre(10, 11, 1, 2, 3, 20, 21, 4, 5));
  EXPECT_THAT(row->mask, ElementsAre(0, 0, 1, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(row->versions, ElementsAre(0, 0, 4, 4, 5, 0, 0, 6, 6));
  EXPECT_THAT(row->lags, ElementsAre(0, 0, 2, 2, 1, 0, 0, 0, 0));
  EXPECT_THAT(row->turns, ElementsAre(-1, -1, 0, 0, 0, 0, 0, 1, 1));
  EXPECT_THAT(row->turn_ends, ElementsAre(0, 0, 0, 0, 1, 0, 0, 0, 1));
  EXPECT_FLOAT_EQ(row->behaviour[7], -0.4f);
  EXPECT_EQ(row->trained_tokens, 5u);
}

TEST(Flatten, LeavesOutWhatReplayMarkedAsTooOldWhateverItsLag) {
  v1::Sample sample = TwoTurns();
  sample.mutable_trajectory()->mutable_turns(0)->mutable_versions(0)->set_masked(true);
  auto row = Flatten(sample, {.lag_of = [](uint64_t) { return UINT64_MAX; }});
  ASSERT_TRUE(row.ok());
  EXPECT_THAT(row->mask, ElementsAre(0, 0, 0, 0, 1, 0, 0, 1, 1));
  EXPECT_EQ(row->too_old_tokens, 2u);
  EXPECT_EQ(row->trained_tokens, 3u);
}

TEST(Flatten, ABranchIsASequenceOfItsOwnAndKeepsItsTurnsNumber) {
  v1::Sample sample = TwoTurns();
  for (const uint32_t id : {40u, 41u, 42u}) {
    sample.mutable_trajectory()->mutable_turns(1)->add_prompt_ids(id);
  }
  const auto rows = FlattenBranches(sample, {});
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_THAT((*rows)[0].ids, ElementsAre(10, 11, 1, 2, 3));
  EXPECT_THAT((*rows)[1].ids, ElementsAre(40, 41, 42, 4, 5));
  EXPECT_THAT((*rows)[1].mask, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT((*rows)[1].turns, ElementsAre(-1, -1, -1, 1, 1));
  EXPECT_EQ((*rows)[1].prompt_tokens, 3u);
  EXPECT_THAT(Flatten(sample, {}).status().message(), HasSubstr("has branches"));
}

// Every token of turn 0 from what `sets` says.
v1::Sample WithSupports(const std::vector<std::vector<int32_t>>& sets) {
  v1::Sample sample = TwoTurns();
  TokenSupports supports;
  for (const auto& set : sets) supports.Add(EncodeSupport(set));
  FillSupports(supports, 0, *sample.mutable_trajectory()->mutable_turns(0)->mutable_supports());
  return sample;
}

TEST(Flatten, SaysWhatEachTokenWasDrawnFrom) {
  const auto row = Flatten(WithSupports({{1, 2, 9}, {1, 2, 9}, {3}}), {});
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_THAT(row->support_of, ElementsAre(-1, -1, 0, 0, 1, -1, -1, -1, -1));
  ASSERT_EQ(row->supports.size(), 2u);
  EXPECT_EQ(row->supports[0].size(), 2u) << "runs of consecutive ids";
  EXPECT_THAT(Flatten(WithSupports({{1, 2, 9}}), {}).status().message(),
              HasSubstr("turn 0: 3 ids but 1 supports"));
  EXPECT_THAT(Flatten(WithSupports({{1}, {1}, {3}}), {}).status().message(),
              HasSubstr("turn 0: id 2 is not among those that it was drawn from"));
  EXPECT_THAT(Flatten(WithSupports({{1}, {2}, {3, 40}}), {.lag_of = {}, .vocabulary = 39})
                  .status()
                  .message(),
              HasSubstr("outside the vocabulary of 39"));
}

TEST(Flatten, LeavesOutTokensWithASupportForWhoDoesNotNormaliseOverIt) {
  FlattenOptions options;
  options.supports = false;
  const auto row = Flatten(WithSupports({{1, 2, 9}, {1, 2, 9}, {3}}), options);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_THAT(row->ids, ::testing::ElementsAreArray(Flatten(TwoTurns(), {})->ids));
  EXPECT_THAT(row->support_of, ::testing::Each(-1));
  EXPECT_TRUE(row->supports.empty());
  EXPECT_EQ(row->unnormalised_tokens, 3u);
  const auto full = Flatten(TwoTurns(), options);
  EXPECT_EQ(row->trained_tokens + 3, full->trained_tokens) << "the other turn is trained";
  EXPECT_EQ(full->unnormalised_tokens, 0u);
}

TEST(PackMicrobatches, SupportsOfAllRowsAreNumberedTogether) {
  std::vector<TrainSequence> rows = {*Flatten(WithSupports({{1}, {2}, {3}}), {}),
                                     *Flatten(TwoTurns(), {}),
                                     *Flatten(WithSupports({{1, 8}, {2}, {2, 3}}), {})};
  const std::vector<std::vector<double>> advantages(3, {1, 1});
  const auto packed = PackMicrobatches(rows, advantages, std::vector<int32_t>{0, 1, 2}, 1000);
  ASSERT_EQ(packed.size(), 1u);
  ASSERT_EQ(packed[0].supports.size(), 6u);
  const auto of_row = [&](size_t row) {
    const auto at = packed[0].support_of.begin() + packed[0].offsets[row] + 2;
    return std::vector<int32_t>(at, at + 3);
  };
  EXPECT_THAT(of_row(0), ElementsAre(0, 1, 2));
  EXPECT_THAT(of_row(1), ElementsAre(-1, -1, -1));
  EXPECT_THAT(of_row(2), ElementsAre(3, 4, 5));
}

TEST(Flatten, NamesTheTrajectoryAndWhatIsWrong) {
  v1::Sample sample = TwoTurns();
  sample.mutable_trajectory()->mutable_turns(1)->add_logprobs(-1);
  EXPECT_THAT(Flatten(sample, {}).status().message(),
              HasSubstr("task/7/0#1: turn 1: 2 ids but 3 log-probabilities"));

  sample = TwoTurns();
  sample.mutable_trajectory()->mutable_turns(0)->mutable_versions(0)->set_tokens(9);
  EXPECT_THAT(Flatten(sample, {}).status().message(), HasSubstr("3 ids but versions for 10"));

  sample = TwoTurns();
  sample.mutable_trajectory()->mutable_turns(0)->set_logprobs(1, 0.5f);
  EXPECT_THAT(Flatten(sample, {}).status().message(), HasSubstr("is not a log-probability"));

  sample = TwoTurns();
  sample.mutable_trajectory()->mutable_sampling()->set_temperature(0);
  EXPECT_THAT(Flatten(sample, {}).status().message(), HasSubstr("temperature"));

  EXPECT_THAT(Flatten(TwoTurns(), {.lag_of = {}, .vocabulary = 31}).status().ToString(),
              HasSubstr("ok"));
  EXPECT_THAT(Flatten(TwoTurns(), {.lag_of = {}, .vocabulary = 21}).status().message(),
              HasSubstr("id 21 is outside the vocabulary of 21"));
}

std::vector<TrainSequence> RandomRows(uint64_t seed, int count) {
  Random random(seed);
  std::vector<TrainSequence> rows;
  for (int i = 0; i < count; ++i) {
    const auto length = static_cast<size_t>(random.Between(2, 60));
    std::vector<uint32_t> ids(length, static_cast<uint32_t>(i));
    std::vector<float> logprobs(length, -1.0f);
    auto row = Flatten(MakeSample(1, 0, 0, {9}, {{ids, logprobs, {{1, length}}, {}, ""}}), {});
    rows.push_back(*row);
  }
  return rows;
}

TEST(PackMicrobatches, PutsEverySequenceIntoExactlyOneMicrobatchUnderTheBudget) {
  const auto rows = RandomRows(3, 57);
  const std::vector<std::vector<double>> advantages(rows.size(), {0.5});
  std::vector<int32_t> chosen(rows.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  const auto packed = PackMicrobatches(rows, advantages, chosen, 200);
  std::vector<int> seen(rows.size(), 0);
  for (const Microbatch& micro : packed) {
    // All have the same prompt of one token.
    EXPECT_LE(micro.ids.size() - (micro.rows() - 1), 200u);
    ASSERT_EQ(micro.offsets.size(), micro.rows() + 1);
    EXPECT_EQ(static_cast<size_t>(micro.offsets.back()), micro.ids.size());
    for (size_t r = 0; r < micro.rows(); ++r) {
      const auto& row = rows[static_cast<size_t>(micro.sequences[r])];
      ++seen[static_cast<size_t>(micro.sequences[r])];
      ASSERT_EQ(static_cast<size_t>(micro.offsets[r + 1] - micro.offsets[r]), row.ids.size());
      const auto begin = static_cast<size_t>(micro.offsets[r]);
      EXPECT_EQ(micro.positions[begin], 0);
      EXPECT_EQ(micro.ids[begin + 1], row.ids[1]);
      EXPECT_DOUBLE_EQ(micro.advantages[begin], 0);
      EXPECT_DOUBLE_EQ(micro.advantages[begin + 1], 0.5);
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST(PackMicrobatches,
     GivesARowOverTheBudgetAMicrobatchOfItsOwnAndLeavesOutRowsWithNothingToTrain) {
  auto rows = RandomRows(4, 5);
  rows[2].trained_tokens = 0;
  const std::vector<std::vector<double>> advantages(rows.size(), {1.0});
  const std::vector<int32_t> chosen = {0, 1, 2, 3};
  const auto packed = PackMicrobatches(rows, advantages, chosen, 1);
  EXPECT_EQ(packed.size(), 3u);
}

TEST(PackMicrobatches, GivesEachTurnItsOwnAdvantage) {
  const std::vector<TrainSequence> rows = {*Flatten(TwoTurns(), {})};
  const std::vector<std::vector<double>> advantages = {{0.25, -2}};
  const std::vector<int32_t> chosen = {0};
  const auto packed = PackMicrobatches(rows, advantages, chosen, 1000);
  EXPECT_THAT(packed.at(0).advantages, ElementsAre(0, 0, .25, .25, .25, 0, 0, -2, -2));
}

TEST(PackMicrobatches, CountsASharedPromptOnceAndKeepsItsRowsTogether) {
  std::vector<TrainSequence> rows;
  for (uint32_t i = 0; i < 6; ++i) {
    // Two prompts of 10 tokens in turn; each row adds 2.
    const std::vector<uint32_t> prompt(10, 50 + i % 2);
    rows.push_back(
        *Flatten(MakeSample(1, i, 0, prompt, {{{i, i}, {-1, -1}, {{1, 2}}, {}, ""}}), {}));
  }
  const std::vector<std::vector<double>> advantages(rows.size(), {1.0});
  const std::vector<int32_t> chosen = {0, 1, 2, 3, 4, 5};
  const auto packed = PackMicrobatches(rows, advantages, chosen, 16);
  ASSERT_EQ(packed.size(), 2u);
  EXPECT_THAT(packed[0].sequences, ElementsAre(0, 2, 4));
  EXPECT_THAT(packed[1].sequences, ElementsAre(1, 3, 5));
  EXPECT_THAT(packed[0].prompts, ElementsAre(10, 10, 10));
}

TEST(ShareOut, GivesEverySequenceToOneRankAndEachAboutAsManyTokens) {
  std::vector<TrainSequence> rows(40);
  std::vector<int32_t> chosen;
  Random random(11);
  size_t total = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    // Four prompts of 5 tokens, in turn.
    rows[i].prompt_tokens = 5;
    rows[i].ids.assign(5, static_cast<int32_t>(i % 4));
    rows[i].ids.resize(5 + static_cast<size_t>(random.Between(1, 30)), 9);
    total += rows[i].ids.size();
    chosen.push_back(static_cast<int32_t>(i));
  }
  for (uint32_t shares : {1u, 2u, 3u, 7u}) {
    const auto parts = ShareOut(rows, chosen, shares);
    ASSERT_EQ(parts.size(), shares);
    std::set<int32_t> seen;
    int changes = 0, prompt = -1;
    for (const auto& part : parts) {
      size_t tokens = 0;
      for (int32_t index : part) {
        EXPECT_TRUE(seen.insert(index).second);
        tokens += rows[static_cast<size_t>(index)].ids.size();
        if (rows[static_cast<size_t>(index)].ids[0] != prompt) ++changes;
        prompt = rows[static_cast<size_t>(index)].ids[0];
      }
      EXPECT_NEAR(static_cast<double>(tokens), static_cast<double>(total) / shares, 35);
    }
    EXPECT_EQ(seen.size(), rows.size());
    EXPECT_EQ(changes, 4);  // rows of one prompt are together
  }
  EXPECT_EQ(ShareOut(rows, {}, 3), std::vector<std::vector<int32_t>>(3));
}

}  // namespace
}  // namespace tidemill
