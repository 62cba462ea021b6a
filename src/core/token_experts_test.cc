#include "core/token_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/message_check.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TokenExperts ThreeRows() {
  return {.first = 5, .choices = 2, .chosen = {1, 300, 0, 7, 65534, 2}};
}

TEST(TokenExperts, TakeTwoBytesEachAndComeBackFromAnyTokenOn) {
  v1::TokenExperts stored;
  FillExperts(ThreeRows(), 0, stored);
  EXPECT_EQ(stored.first(), 5u);
  EXPECT_EQ(stored.choices(), 2u);
  EXPECT_EQ(stored.experts(), std::string("\x01\x00\x2c\x01\x00\x00\x07\x00\xfe\xff\x02\x00", 12));
  EXPECT_EQ(ReadExperts(stored).chosen, ThreeRows().chosen);
  FillExperts(ThreeRows(), 6, stored);
  EXPECT_EQ(stored.first(), 6u);
  EXPECT_THAT(ReadExperts(stored).chosen, ElementsAre(0, 7, 65534, 2));
  FillExperts(ThreeRows(), 100, stored);
  EXPECT_EQ(stored.first(), 8u);
  EXPECT_TRUE(ReadExperts(stored).empty());
}

TEST(TokenExperts, AreAppendedInOrder) {
  TokenExperts whole;
  whole.Append({});
  EXPECT_TRUE(whole.empty());
  whole.Append(ThreeRows());
  whole.Append({.first = 8, .choices = 2, .chosen = {3, 4}});
  EXPECT_EQ(whole.first, 5u);
  EXPECT_EQ(whole.rows(), 4u);
  EXPECT_THAT(whole.chosen, ElementsAre(1, 300, 0, 7, 65534, 2, 3, 4));
}

TEST(TokenExperts, ThatAreNoWholeRowsAreRefusedWhereMessagesComeIn) {
  v1::Turn turn;
  v1::TokenExperts& experts = *turn.mutable_experts();
  FillExperts(ThreeRows(), 0, experts);
  EXPECT_TRUE(CheckMessage(turn).ok()) << CheckMessage(turn).ToString();
  experts.mutable_experts()->pop_back();
  EXPECT_THAT(CheckMessage(turn).message(), HasSubstr("11 bytes are no whole rows of 4"));
  FillExperts(ThreeRows(), 0, experts);
  EXPECT_THAT(CheckMessage(turn, {.tokens = 7}).message(), HasSubstr("rows up to token 8 of 7"));
  experts.set_choices(0);
  EXPECT_THAT(CheckMessage(turn).message(), HasSubstr("choices"));
}

}  // namespace
}  // namespace tidemill
