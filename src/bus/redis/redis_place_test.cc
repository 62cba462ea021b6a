#include "bus/redis/redis_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "testing/redis_test_server.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class RedisPlaceTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectPlace> Open() {
    auto place = ConnectRedisPlace(server_.url(), "test");
    EXPECT_TRUE(place.ok()) << place.status().ToString();
    return std::move(*place);
  }
  static Status Put(ObjectPlace& place, std::string_view name, std::string_view content) {
    // In two parts, the first of an odd length.
    const std::string_view parts[] = {content.substr(0, content.size() / 3),
                                      content.substr(content.size() / 3)};
    return place.Put(name, parts);
  }
  static Result<std::string> Read(ObjectPlace& place, std::string_view name, size_t bytes) {
    std::string to(bytes, '?');
    TM_RETURN_IF_ERROR(place.Read(name, {reinterpret_cast<std::byte*>(to.data()), to.size()}));
    return to;
  }
  static std::string Large() {
    std::string large((size_t{5} << 20) + 3, ' ');
    for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i % 251);
    return large;
  }

  RedisTestServer server_;
};

TEST_F(RedisPlaceTest, KeepsSmallAndLargeObjectsForOthers) {
  const auto writer = Open(), reader = Open();
  EXPECT_EQ(reader->Get("newest.json", 100).status().code(), Code::kNotFound);
  ASSERT_TRUE(Put(*writer, "newest.json", "one").ok());
  EXPECT_EQ(reader->Get("newest.json", 100).value(), "one");
  ASSERT_TRUE(Put(*writer, "newest.json", "two and more").ok());
  EXPECT_EQ(reader->Get("newest.json", 100).value(), "two and more");
  EXPECT_EQ(reader->Get("newest.json", 5).status().code(), Code::kInvalid);
  const std::string large = Large();
  ASSERT_TRUE(Put(*writer, "weights-1", large).ok());
  EXPECT_EQ(Read(*reader, "weights-1", large.size()).value(), large);
  EXPECT_EQ(Read(*reader, "weights-1", large.size() - 1).status().code(), Code::kCorrupt);
  EXPECT_EQ(Read(*reader, "weights-1", large.size() + 1).status().code(), Code::kCorrupt);
  EXPECT_EQ(Read(*reader, "newest.json", 12).value(), "two and more");
}

TEST_F(RedisPlaceTest, WhatIsRemovedOrClearedIsGone) {
  const auto place = Open();
  const std::string large = Large();
  ASSERT_TRUE(Put(*place, "weights-1", large).ok());
  ASSERT_TRUE(Put(*place, "weights-2", large).ok());
  ASSERT_TRUE(Put(*place, "other", "stays").ok());
  ASSERT_TRUE(place->Remove("weights-1").ok());
  ASSERT_TRUE(place->Remove("weights-1").ok()) << "it is removed already";
  EXPECT_EQ(Read(*place, "weights-1", large.size()).status().code(), Code::kNotFound);
  const std::string_view prefixes[] = {"weights-"};
  ASSERT_TRUE(place->Clear(prefixes).ok());
  EXPECT_EQ(Read(*place, "weights-2", large.size()).status().code(), Code::kNotFound);
  EXPECT_EQ(place->Get("other", 100).value(), "stays");
  EXPECT_EQ(server_.Do({"DBSIZE"})->integer, 1) << "no piece is left";
}

TEST_F(RedisPlaceTest, AMissingPieceIsNamedAndABrokenConnectionCostsNothing) {
  const auto place = Open();
  const std::string large = Large();
  ASSERT_TRUE(Put(*place, "weights-1", large).ok());
  (void)server_.Do({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_EQ(Read(*place, "weights-1", large.size()).value(), large);
  (void)server_.Do({"DEL", "{test}:object:weights-1:3"});
  const Status missing = Read(*place, "weights-1", large.size()).status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("weights-1: piece 3 is not there"));
}

}  // namespace
}  // namespace tidemill
