#include "bus/redis/redis_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(RedisUrl, ReadsEveryPart) {
  auto address = ParseRedisUrl("redis://alice:s%40cret%3A@cache.example:7000/3");
  ASSERT_TRUE(address.ok()) << address.status().ToString();
  EXPECT_EQ(address->host, "cache.example");
  EXPECT_EQ(address->port, 7000);
  EXPECT_EQ(address->db, 3);
  EXPECT_EQ(address->user, "alice");
  EXPECT_EQ(address->password, "s@cret:");
  EXPECT_EQ(address->Name(), "cache.example:7000/3");
}

TEST(RedisUrl, HasDefaultsForPortAndDatabaseAndNeedsNoUser) {
  auto address = ParseRedisUrl("redis://localhost");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->Name(), "localhost:6379/0");
  EXPECT_FALSE(address->authenticates());
  EXPECT_EQ(ParseRedisUrl("redis://localhost:1/")->Name(), "localhost:1/0");
}

TEST(RedisUrl, ReadsAPasswordWithoutAUserAndAUserWithoutAPassword) {
  auto password = ParseRedisUrl("redis://:secret@h");
  ASSERT_TRUE(password.ok());
  EXPECT_EQ(password->user, "");
  EXPECT_EQ(password->password, "secret");
  auto user = ParseRedisUrl("redis://bob@h");
  ASSERT_TRUE(user.ok());
  EXPECT_EQ(user->user, "bob");
  EXPECT_TRUE(user->authenticates());
}

TEST(RedisUrl, ReadsAnAddressInBrackets) {
  auto address = ParseRedisUrl("redis://[::1]:6400/2");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->Name(), "[::1]:6400/2");
  EXPECT_EQ(ParseRedisUrl("redis://[fe80::1]")->port, 6379);
}

TEST(RedisUrl, RefusesWhatIsWrongAndSaysWhat) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "does not begin with redis:// or rediss://"},
      {"http://h", "does not begin with redis://"},
      {"redis://h?ca=x", "rediss:// takes ca="},
      {"rediss://h?ca", "name files"},
      {"rediss://h?verify", "rediss:// takes ca="},
      {"rediss://h?ca=", "name files"},
      {"rediss://h?cert=c.pem", "cert and key go together"},
      {"rediss://h#x", "'#'"},
      {"redis://", "host is missing"},
      {"redis://:6379", "host is missing"},
      {"redis://@h", "without a user"},
      {"redis://h:", "port must be a number"},
      {"redis://h:0", "port must be a number from 1"},
      {"redis://h:65536", "from 1 to 65535"},
      {"redis://[[::1]", "invalid character"},
      {"redis://h:6379x", "port must be a number"},
      {"redis://h:1/db", "database must be a number"},
      {"redis://h:1/-1", "database must be a number"},
      {"redis://h:1/99999999999999999999", "database must be a number"},
      {"redis://a%4@h", "two hex digits"},
      {"redis://a:%zz@h", "two hex digits"},
      {"redis://[::1", "without its ']'"},
      {"redis://[::1]x", "after the ']'"},
      {"redis://h?timeout=3", "unknown option"},
      {"redis://h h", "invalid character"},
  };
  for (const auto& [url, want] : cases) {
    auto address = ParseRedisUrl(url);
    ASSERT_FALSE(address.ok()) << url;
    EXPECT_EQ(address.status().code(), Code::kInvalid);
    EXPECT_THAT(address.status().message(), testing::HasSubstr(want)) << url;
  }
  EXPECT_FALSE(ParseRedisUrl(std::string(5000, 'x')).ok());
}

TEST(RedisUrl, NeverRepeatsThePassword) {
  for (const char* url : {"redis://u:hunter2@h:bad", "redis://u:hunter2%@h", "redis://u:hunter2@",
                          "redis://u:hunter2"}) {
    EXPECT_THAT(ParseRedisUrl(url).status().message(), testing::Not(testing::HasSubstr("hunter2")));
  }
}

TEST(RedisUrl, ReadsTlsAndItsFiles) {
  auto address = ParseRedisUrl("rediss://u:p@h:6380/2?ca=/a%20b/ca.pem&cert=c.pem&key=k.pem");
  ASSERT_TRUE(address.ok()) << address.status().ToString();
  EXPECT_TRUE(address->tls);
  EXPECT_EQ(address->Name(), "h:6380/2");
  EXPECT_EQ(address->ca, "/a b/ca.pem");
  EXPECT_EQ(address->cert, "c.pem");
  EXPECT_EQ(address->key, "k.pem");
  EXPECT_FALSE(ParseRedisUrl("redis://h")->tls);
  EXPECT_TRUE(ParseRedisUrl("rediss://h")->tls);
}

}  // namespace
}  // namespace tidemill
