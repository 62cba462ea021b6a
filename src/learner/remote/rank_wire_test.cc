#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "learner/remote/rank_link.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

Result<RankMessage> Decode(const std::string& bytes) {
  const auto frame = DecodeRankFrame(std::string_view(bytes).substr(0, RankFrame::kBytes));
  if (!frame.ok()) return frame.status();
  const std::string_view rest = std::string_view(bytes).substr(RankFrame::kBytes);
  return DecodeRankMessage(rest.substr(0, frame->words), rest.substr(frame->words));
}

TEST(RankWire, AMessageComesOutAsItWentIn) {
  RankMessage message;
  message.words = {{"verb", "score"}, {"parts", {{{"rank", 1}}}}};
  message.ints["ids"] = {1, -2, 3};
  message.ints["mask"] = {};
  message.floats["behaviour"] = {-0.5f, 0.25f};
  const auto read = Decode(EncodeRankMessage(message));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->words, message.words);
  EXPECT_EQ(read->ints, message.ints);
  EXPECT_EQ(read->floats, message.floats);
  const auto empty = Decode(EncodeRankMessage({}));
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->words.empty());
}

TEST(RankWire, ArraysAreReadInTheOrderInWhichTheyAreNamed) {
  const std::string numbers("\1\0\0\0\2\0\0\0", 8);
  const auto read = DecodeRankMessage(
      R"({"arrays":{"z":{"type":"i32","count":1},"a":{"type":"i32","count":1}}})", numbers);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->ints.at("z"), std::vector<int32_t>{1});
  EXPECT_EQ(read->ints.at("a"), std::vector<int32_t>{2});
}

TEST(RankWire, WhatIsNoMessageIsRefusedByItsFault) {
  const auto refused = [](const char* words, size_t bytes) {
    return DecodeRankMessage(words, std::string(bytes, '\0')).status().message();
  };
  EXPECT_THAT(refused("[1]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(refused(R"({"arrays":[1]})", 0), HasSubstr("\"arrays\""));
  EXPECT_THAT(refused(R"({"arrays":{"a":{"type":"f64","count":1}}})", 8), HasSubstr("\"a\""));
  EXPECT_THAT(refused(R"({"arrays":{"a":{"type":"f32","count":3}}})", 8), HasSubstr("longer"));
  EXPECT_THAT(refused(R"({"arrays":{"a":{"type":"f32","count":9223372036854775807}}})", 8),
              HasSubstr("longer"));
  EXPECT_THAT(refused(R"({"arrays":{"a":{"type":"f32","count":1}}})", 8), HasSubstr("longer"));
  EXPECT_FALSE(DecodeRankFrame(std::string(RankFrame::kBytes, '\xff')).ok());
}

TEST(RankWire, ANumberThatIsNoneIsNamed) {
  EXPECT_DOUBLE_EQ(*NumberIn({.words = {{"loss", 0.5}}}, "loss"), 0.5);
  EXPECT_THAT(NumberIn({.words = {{"loss", "nan"}}}, "loss").status().message(),
              HasSubstr("\"loss\""));
}

}  // namespace
}  // namespace tidemill
