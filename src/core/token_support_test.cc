#include "core/token_support.h"

#include <gtest/gtest.h>

#include <random>

#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

constexpr int64_t kVocabulary = 500;

std::vector<int32_t> Ids(std::span<const TokenRun> runs) {
  std::vector<int32_t> ids;
  for (const TokenRun& run : runs) {
    for (int32_t i = 0; i < run.count; ++i) ids.push_back(run.first + i);
  }
  return ids;
}

TEST(TokenSupport, ComesBackAsItWasWhateverItsDensity) {
  std::mt19937 random(17);
  for (int percent = 1; percent <= 100; ++percent) {
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < kVocabulary; ++id) {
      if (static_cast<int>(random() % 100) < percent) ids.push_back(id);
    }
    if (ids.empty()) ids.push_back(3);
    const std::string bytes = EncodeSupport(ids);
    EXPECT_LE(bytes.size(), 1 + kVocabulary / 8 + 1);
    const auto runs = DecodeSupport(bytes, kVocabulary);
    ASSERT_TRUE(runs.ok()) << runs.status().message();
    EXPECT_EQ(Ids(*runs), ids);
    for (int32_t id = 0; id < kVocabulary; ++id) {
      EXPECT_EQ(InRuns(*runs, id), std::binary_search(ids.begin(), ids.end(), id)) << id;
    }
  }
}

TEST(TokenSupport, OfFewTokensAndOfNearlyAllIsShort) {
  EXPECT_LE(EncodeSupport(std::vector<int32_t>{151'000}).size(), 5u);
  std::vector<int32_t> most;
  for (int32_t id = 0; id < 151'000; ++id) {
    if (id != 34 && id != 92) most.push_back(id);
  }
  EXPECT_LE(EncodeSupport(most).size(), 12u);
}

TEST(TokenSupport, BytesThatAreNoneAreRefused) {
  using std::string;
  for (const string& bytes :
       {string(), string("r"), string("b"), string("x\1\1", 3), string("r\1", 2),
        string("r\1\0", 3), string("r\1\1\0\1", 5), string("b\1\0", 3),
        string("r\xff\xff\xff\xff\xff\1", 7), string("r\xff\xff\xff\xff\x7f\1", 7),
        string("r\xf4\3\1", 4), "b" + string(62, '\0') + "\x10", "b" + string(70, '\1')}) {
    EXPECT_EQ(DecodeSupport(bytes, kVocabulary).status().code(), Code::kInvalid);
  }
  EXPECT_TRUE(DecodeSupport(string("r\xf3\3\1", 4), kVocabulary).ok());
}

TEST(TokenSupports, EqualSetsAreKeptOnce) {
  TokenSupports all;
  for (int i = 0; i < 10; ++i) all.Add(EncodeSupport(std::vector<int32_t>{i % 2, 7}));
  EXPECT_EQ(all.sets.size(), 2u);
  TokenSupports twice = all;
  twice.Append(all);
  EXPECT_EQ(twice.sets.size(), 2u);
  EXPECT_EQ(twice.set_of.size(), 20u);
  v1::TokenSupports behind;
  FillSupports(twice, 19, behind);
  EXPECT_EQ(behind.sets_size(), 1);
  EXPECT_EQ(behind.sets(0), EncodeSupport(std::vector<int32_t>{1, 7}));
}

TEST(TokenSupports, AreCheckedAgainstTheIds) {
  TokenSupports all;
  all.Add(EncodeSupport(std::vector<int32_t>{1, 2}));
  all.Add(EncodeSupport(std::vector<int32_t>{5}));
  v1::TokenSupports message;
  FillSupports(all, 0, message);
  const auto check = [&](std::vector<uint32_t> ids) {
    return CheckSupports(message, ids, kVocabulary);
  };
  EXPECT_TRUE(check({2, 5}).ok());
  EXPECT_EQ(check({2}).message(), "supports: 2 for 1 ids");
  EXPECT_EQ(check({2, 6}).message(), "supports: id 6 is not among those that it was drawn from");
  message.set_set_of(1, 2);
  EXPECT_EQ(check({2, 5}).message(), "supports: set 2 of 2");
}

}  // namespace
}  // namespace tidemill
