#include "tinker/sample_ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "proto/tinker.pb.h"
#include "tinker/wire_numbers.h"

namespace tidemill {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json AskJson() {
  return {{"sampling_session_id", "S1:sample:0"},
          {"seq_id", 4},
          {"num_samples", 2},
          {"prompt", {{"chunks", {{{"type", "encoded_text"}, {"tokens", {5, 6, 7}}}}}}},
          {"sampling_params", {{"max_tokens", 9}}},
          {"type", "sample"}};
}

std::string WhyNoSample(const json& body) {
  const auto ask = ParseSampleAsk(body.dump());
  return ask.ok() ? "" : ask.status().message();
}

TEST(SampleAsk, DefaultsAreTheClients) {
  const auto ask = ParseSampleAsk(AskJson().dump());
  ASSERT_TRUE(ask.ok()) << ask.status().message();
  EXPECT_EQ(ask->sampler, "S1:sample:0");
  EXPECT_EQ(ask->samples, 2u);
  EXPECT_EQ(ask->turn.max_new_tokens, 9);
  EXPECT_EQ(ask->turn.sampling.temperature, 1);
  EXPECT_FALSE(ask->turn.sampling.Truncates());
  EXPECT_FALSE(ask->own_stops);
  EXPECT_FALSE(ask->NeedsScores());
}

TEST(SampleAsk, StopsAreAStringOrStringsOrIdsOrNone) {
  json body = AskJson();
  body["sampling_params"]["stop"] = "\n";
  EXPECT_THAT(ParseSampleAsk(body.dump())->turn.stop_strings, ElementsAre("\n"));
  body["sampling_params"]["stop"] = {3, 4};
  EXPECT_THAT(ParseSampleAsk(body.dump())->turn.stop_ids, ElementsAre(3, 4));
  body["sampling_params"]["stop"] = json::array();
  const auto none = ParseSampleAsk(body.dump());
  EXPECT_TRUE(none->own_stops);
  EXPECT_TRUE(none->turn.stop_ids.empty());
}

TEST(SampleAsk, WhatIsNotSupportedIsNamed) {
  for (const auto& [field, value] : {std::pair<std::string, json>{"prompt_alt_tokens_k", 2},
                                     {"record_stability_info", true},
                                     {"target_prompt_logprobs", json::object()},
                                     {"num_samples", 0},
                                     {"seq_id", -1}}) {
    json body = AskJson();
    body[field] = value;
    EXPECT_THAT(WhyNoSample(body), HasSubstr(field));
  }
  json body = AskJson();
  body["prompt"]["chunks"][0]["type"] = "image";
  EXPECT_THAT(WhyNoSample(body), HasSubstr("image"));
  body = AskJson();
  body["sampling_params"]["temperature"] = "hot";
  EXPECT_THAT(WhyNoSample(body), HasSubstr("temperature"));
  body = AskJson();
  body["prompt"]["chunks"][0]["tokens"] = {1, -1};
  EXPECT_THAT(WhyNoSample(body), HasSubstr("tokens"));
}

TEST(SampleAsk, TheAnswerHasScoresWhereTheyWereAskedFor) {
  json body = AskJson();
  body["prompt_logprobs"] = true;
  body["topk_prompt_logprobs"] = 2;
  body["prompt_logprobs_last_n"] = 1;
  const auto ask = ParseSampleAsk(body.dump());
  ASSERT_TRUE(ask.ok());
  SampleAnswer answer;
  answer.turns.resize(1);
  answer.turns[0].ids = {8, 9};
  answer.turns[0].logprobs = {-0.5f, -0.25f};
  answer.turns[0].finish = TurnFinish::kLength;
  answer.scores = PromptScores{.logprobs = {-1, -2}, .top = {{{1, -1}}, {{6, -2}, {7, -3}}}};
  const std::string bytes = SampleAnswerBytes(*ask, answer);
  tinker::SampleResponse response;
  ASSERT_TRUE(response.ParseFromString(bytes));
  EXPECT_EQ(response.sequences(0).stop_reason(), tinker::SampledSequence::LENGTH);
  std::vector<float> prompt;
  ASSERT_TRUE(FromWireBytes(response.prompt_logprobs(), prompt));
  ASSERT_EQ(prompt.size(), 3u);
  EXPECT_TRUE(std::isnan(prompt[0]) && std::isnan(prompt[1]));
  EXPECT_EQ(prompt[2], -2);
  std::vector<int32_t> ids;
  ASSERT_TRUE(FromWireBytes(response.topk_prompt_logprobs().token_ids(), ids));
  EXPECT_THAT(ids, ElementsAre(0, 0, 0, 0, 6, 7));
  const json read = json::parse(*SampleAnswerJson(bytes));
  EXPECT_EQ(read["sequences"][0]["tokens"], json({8, 9}));
  EXPECT_EQ(read["sequences"][0]["stop_reason"], "length");
  EXPECT_TRUE(read["prompt_logprobs"][0].is_null());
  EXPECT_TRUE(read["topk_prompt_logprobs"][1].is_null());
}

}  // namespace
}  // namespace tidemill
