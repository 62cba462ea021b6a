#include "bus/rabbit/rabbit_book.h"

#include <gtest/gtest.h>

#include <set>

namespace tidemill {
namespace {

constexpr Duration kMinute = std::chrono::minutes(1);

class RabbitBookTest : public testing::Test {
 protected:
  std::set<std::string> Keys(const RabbitBook& book) const {
    std::set<std::string> keys;
    book.ForEach("", now_, [&](std::string_view key, const RabbitNote&) { keys.emplace(key); });
    return keys;
  }
  Time now_{std::chrono::hours(1)};
  RabbitBook one_, other_;
};

TEST_F(RabbitBookTest, WhatOneMemberWritesTheOthersRead) {
  other_.Take(one_.Write("sheet", "text", kMinute, now_, 1000), now_);
  ASSERT_NE(other_.Find("sheet", now_), nullptr);
  EXPECT_EQ(other_.Find("sheet", now_)->value, "text");
  EXPECT_EQ(one_.Find("sheet", now_)->value, "text");
  other_.Take(one_.Erase("sheet", 1000), now_);
  EXPECT_EQ(other_.Find("sheet", now_), nullptr);
}

TEST_F(RabbitBookTest, ANoteLapses) {
  one_.Write("sheet", "text", kMinute, now_, 1000);
  EXPECT_NE(one_.Find("sheet", now_ + kMinute / 2), nullptr);
  EXPECT_EQ(one_.Find("sheet", now_ + kMinute), nullptr);
}

TEST_F(RabbitBookTest, AnOlderNoteDoesNotReplaceANewerOne) {
  const RabbitMessage first = one_.Write("sheet", "first", kMinute, now_, 1000);
  other_.Take(one_.Write("sheet", "second", kMinute, now_, 1000), now_);
  other_.Take(first, now_);
  EXPECT_EQ(other_.Find("sheet", now_)->value, "second");
}

TEST_F(RabbitBookTest, ANewcomerGetsACopyInWhichNotesAreAsOldAsTheyAre) {
  one_.Write("a", "1", kMinute, now_, 1000);
  one_.Write("b", "2", 3 * kMinute, now_, 1000);
  now_ += 2 * kMinute;
  for (RabbitMessage& message : one_.Copy("queue", now_)) {
    EXPECT_EQ(message.key, "queue");
    other_.Take(std::move(message), now_);
  }
  EXPECT_TRUE(other_.TakeEndOfCopy());
  EXPECT_FALSE(other_.TakeEndOfCopy());
  EXPECT_EQ(Keys(other_), std::set<std::string>{"b"});
  now_ += kMinute;
  EXPECT_TRUE(Keys(other_).empty());
}

TEST_F(RabbitBookTest, ErasesAllButWhatIsNamed) {
  for (const char* key : {"worker:a", "figures:a", "died:t a"}) {
    other_.Take(one_.Write(key, "x", kMinute, now_, 1000), now_);
  }
  other_.Take(one_.EraseAllBut({"figures:"}, 2000), now_);
  EXPECT_EQ(Keys(other_), std::set<std::string>{"figures:a"});
}

}  // namespace
}  // namespace tidemill
