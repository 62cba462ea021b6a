#include "teacher/torch/model_teacher.h"

#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/random.h"
#include "model/torch/score.h"
#include "testing/test_kit.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

std::shared_ptr<const PolicyWeights> Wide(uint64_t seed, int vocabulary = 37, int context = 128) {
  ModelConfig config = TinyConfig();
  config.initializer_range = 0.2;
  config.vocab_size = vocabulary;
  config.max_position_embeddings = context;
  return PolicyWeights::NewRandom(config, seed).value();
}

TeacherCall RandomCall(Random& random, uint64_t tag) {
  TeacherCall call;
  call.tag = tag;
  const size_t length = 8 + random.Below(30);
  for (size_t i = 0; i < length; ++i) call.ids.push_back(static_cast<TokenId>(random.Below(37)));
  call.spans = {{2, 3}, {6, length - 6 - random.Below(2)}};
  return call;
}

// The log-probability of each token after the first, in float64 by the plain formula.
std::vector<double> Reference(const PolicyWeights& weights, const std::vector<TokenId>& ids,
                              double temperature) {
  const at::NoGradGuard no_grad;
  const at::Tensor logits =
      Logits(weights.view(), ForwardHidden(weights.config(), weights.view(), Pack({ids})))
          .to(at::kDouble);
  std::vector<double> logprobs;
  for (size_t i = 1; i < ids.size(); ++i) {
    double sum = 0, own = 0;
    for (int64_t v = 0; v < logits.size(1); ++v) {
      const double z = logits[static_cast<int64_t>(i) - 1][v].item<double>() / temperature;
      sum += std::exp(z);
      if (v == ids[i]) own = z;
    }
    logprobs.push_back(own - std::log(sum));
  }
  return logprobs;
}

TEST(ModelTeacher, ScoresOfABatchAreThoseOfEachSequenceAlone) {
  const auto weights = Wide(3);
  Random random(5);
  for (const double temperature : {1.0, 0.7}) {
    std::vector<TeacherCall> calls;
    for (uint64_t tag = 0; tag < 6; ++tag) calls.push_back(RandomCall(random, tag));
    for (TeacherCall& call : calls) call.temperature = temperature;
    const auto scores = ScoreCalls(*weights, calls);
    ASSERT_TRUE(scores.ok()) << scores.status().ToString();
    for (size_t c = 0; c < calls.size(); ++c) {
      const std::vector<double> right = Reference(*weights, calls[c].ids, temperature);
      size_t at = 0;
      for (const TokenSpan& span : calls[c].spans) {
        for (size_t i = span.begin; i < span.begin + span.tokens; ++i, ++at) {
          EXPECT_NEAR((*scores)[c].logprobs[at], right[i - 1], 1e-4) << c << " " << i;
          EXPECT_EQ((*scores)[c].known[at], 1);
        }
      }
      EXPECT_EQ(at, (*scores)[c].logprobs.size());
    }
  }
}

TEST(ModelTeacher, WhatItCannotReadAndAllThatFollowsIsNotKnown) {
  const auto weights = Wide(3, 37, 12);
  const TeacherCall outside{1, {1, 2, 3, 40, 5, 6}, {{1, 5}}, 1};
  TeacherCall longer{2, {}, {{9, 6}}, 1};
  for (int i = 0; i < 15; ++i) longer.ids.push_back(i);
  const auto scores = ScoreCalls(*weights, {outside, longer});
  ASSERT_TRUE(scores.ok()) << scores.status().ToString();
  EXPECT_EQ((*scores)[0].known, (std::vector<uint8_t>{1, 1, 0, 0, 0}));
  EXPECT_EQ((*scores)[1].known, (std::vector<uint8_t>{1, 1, 1, 0, 0, 0}));
  const auto right = ScoreTokens(*weights, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_NEAR((*scores)[1].logprobs[2], (*right)[10], 1e-5);
}

TEST(ModelTeacher, AnswersEveryCallFromItsThread) {
  RealClock clock;
  const auto weights = Wide(3);
  ModelTeacher teacher([&] { return weights; }, clock, {.batch_tokens = 64});
  Random random(7);
  std::vector<TeacherCall> calls;
  for (uint64_t tag = 0; tag < 20; ++tag) calls.push_back(RandomCall(random, tag));
  for (size_t i = 10; i < 20; ++i) calls[i].temperature = 0.5;
  for (const TeacherCall& call : calls) teacher.Submit(call);
  size_t answered = 0;
  ASSERT_TRUE(Eventually([&] {
    for (const TeacherDone& done : teacher.events().TakeAll()) {
      ++answered;
      EXPECT_TRUE(done.status.ok()) << done.status.ToString();
      const TeacherCall& call = calls.at(done.tag);
      const std::vector<double> right = Reference(*weights, call.ids, call.temperature);
      EXPECT_NEAR(done.scores.logprobs.at(0), right[1], 1e-4);
    }
    return answered == calls.size();
  }));
}

// A directory with a tokenizer of single characters, and a model.
class TeacherDirectory : public testing::Test {
 protected:
  // Tokens are the letters of `letters`, the first of them id 0.
  std::string Write(const std::string& name, const std::string& letters, int vocabulary,
                    int context = 128) {
    const std::string dir = folder_ / name;
    EXPECT_TRUE(Wide(3, vocabulary, context)->Save(dir).ok());
    std::string vocab;
    for (size_t i = 0; i < letters.size(); ++i) {
      vocab += (i == 0 ? "\"" : ", \"") + std::string(1, letters[i]) + "\": " + std::to_string(i);
    }
    std::ofstream(dir + "/tokenizer.json")
        << R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer":
{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
"post_processor": null, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {)"
        << vocab << R"(}, "merges": []}})";
    return dir;
  }
  TemporaryDirectory folder_;
};

TEST_F(TeacherDirectory, WithAnotherTokenizerIsRefusedWithWhatDiffers) {
  const auto ours = Tokenizer::Read(Write("policy", "abcd", 8));
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  const auto load = [&](const std::string& dir, int64_t context = 100) {
    return LoadTeacher(dir, {}, *ours, context).status();
  };
  EXPECT_TRUE(load(Write("same", "abcd", 16)).ok());
  EXPECT_THAT(load(Write("swapped", "abdc", 8)).message(),
              HasSubstr("token 2 is \"d\", the policy's is \"c\""));
  EXPECT_THAT(load(Write("longer", "abcde", 8)).message(),
              HasSubstr("its tokenizer has 5 tokens, the policy's 4"));
  EXPECT_THAT(load(Write("small", "abcd", 3)).message(),
              HasSubstr("its vocabulary of 3 is smaller than the tokenizer's 4"));
  EXPECT_THAT(load(Write("short", "abcd", 8, 64)).message(),
              HasSubstr("its context of 64 tokens is smaller than the 100"));
  EXPECT_THAT(load(folder_ / "none").message(), HasSubstr("none"));
}

}  // namespace
}  // namespace tidemill
