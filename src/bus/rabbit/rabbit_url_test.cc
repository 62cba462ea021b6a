#include "bus/rabbit/rabbit_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RabbitUrl, HasDefaultsForAllButTheHost) {
  const RabbitAddress address = ParseRabbitUrl("amqp://broker").value();
  EXPECT_EQ(address.host, "broker");
  EXPECT_EQ(address.port, 5672);
  EXPECT_EQ(address.vhost, "/");
  EXPECT_EQ(address.user, "guest");
  EXPECT_EQ(address.Name(), "broker:5672/");
  EXPECT_FALSE(address.tls);
  EXPECT_FALSE(address.quorum);
}

TEST(RabbitUrl, ReadsEveryPart) {
  const RabbitAddress address =
      ParseRabbitUrl("amqps://me:p%40ss@[::1]:1234/a%2Fb?ca=/ca.pem&cert=/c&key=/k&queues=quorum")
          .value();
  EXPECT_TRUE(address.tls);
  EXPECT_TRUE(address.quorum);
  EXPECT_EQ(address.user, "me");
  EXPECT_EQ(address.password, "p@ss");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, 1234);
  EXPECT_EQ(address.vhost, "a/b");
  EXPECT_EQ(address.ca, "/ca.pem");
  EXPECT_EQ(address.cert, "/c");
  EXPECT_EQ(address.key, "/k");
  EXPECT_EQ(ParseRabbitUrl("amqps://broker").value().port, 5671);
}

TEST(RabbitUrl, SaysWhatIsWrongAndNotThePassword) {
  const auto why = [](std::string_view url) {
    const auto parsed = ParseRabbitUrl(url);
    EXPECT_EQ(parsed.status().code(), Code::kInvalid) << url;
    return parsed.status().message();
  };
  EXPECT_THAT(why("redis://broker"), HasSubstr("amqp://"));
  EXPECT_THAT(why("amqp://me:secret@:1"), HasSubstr("host is missing"));
  EXPECT_THAT(why("amqp://me:secret@h:99999"), Not(HasSubstr("secret")));
  EXPECT_THAT(why("amqp://h?ca=/ca.pem"), HasSubstr("unknown option"));
  EXPECT_THAT(why("amqp://h?queues=many"), HasSubstr("quorum or classic"));
  EXPECT_THAT(why("amqps://h?cert=/c"), HasSubstr("go together"));
}

}  // namespace
}  // namespace tidemill
