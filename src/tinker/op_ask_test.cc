#include "tinker/op_ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using testing::HasSubstr;

TEST(OpAsk, RatesComeWithEachStep) {
  const auto rates =
      ReadStepAsk({{"adam_params", {{"learning_rate", 0.5}, {"grad_clip_norm", 1}}}});
  ASSERT_TRUE(rates.ok());
  EXPECT_EQ(rates->learning_rate, 0.5);
  EXPECT_EQ(rates->beta2, 0.95);
  EXPECT_EQ(rates->eps, 1e-12);
  EXPECT_EQ(rates->clip_norm, 1);
  EXPECT_THAT(ReadStepAsk({{"adam_params", {{"beta1", 1}}}}).status().message(),
              HasSubstr("beta1"));
  EXPECT_THAT(ReadStepAsk({{"optimizer_params", WireJson::object()}}).status().message(),
              HasSubstr("AdamW"));
}

TEST(OpAsk, NamesOfCheckpointsStayInTheirFolder) {
  for (const char* bad : {"", ".", "..", "../a", "a/b", ".hidden", "a b", "ä"}) {
    EXPECT_FALSE(CheckCheckpointName(bad).ok()) << bad;
  }
  EXPECT_TRUE(CheckCheckpointName("step-10_final.2").ok());
  EXPECT_FALSE(ParseCheckpointPath("tinker://m/weights/../../x").ok());
  EXPECT_FALSE(ParseCheckpointPath("http://m/weights/x").ok());
  EXPECT_FALSE(ParseCheckpointPath("tinker://m/other/x").ok());
  const auto path = ParseCheckpointPath("tinker://S1:train:0/sampler_weights/b");
  ASSERT_TRUE(path.ok());
  EXPECT_FALSE(path->training);
  EXPECT_EQ(path->Text(), "tinker://S1:train:0/sampler_weights/b");
}

TEST(OpAsk, ASaveIsNamedOrEphemeral) {
  EXPECT_THAT(ReadSaveAsk(WireJson::object(), false).status().message(), HasSubstr("path"));
  EXPECT_THAT(ReadSaveAsk(WireJson::object(), true).status().message(),
              HasSubstr("sampling_session"));
  const auto inflight = ReadSaveAsk({{"sampling_session_seq_id", 3}, {"kind", "inflight"}}, true);
  ASSERT_TRUE(inflight.ok());
  EXPECT_TRUE(inflight->inflight);
  EXPECT_EQ(inflight->sampler, 3);
  EXPECT_THAT(
      ReadSaveAsk({{"sampling_session_seq_id", 3}, {"kind", "else"}}, true).status().message(),
      HasSubstr("kind"));
  EXPECT_THAT(ReadMetadata({{"user_metadata", {{"a", 1}}}}).status().message(),
              HasSubstr("strings"));
}

}  // namespace
}  // namespace tidemill
