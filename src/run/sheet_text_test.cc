#include "run/sheet_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

class SheetTest : public testing::Test {
 protected:
  SheetTest() {
    EXPECT_TRUE(MakeSigningKey(folder_ / "a").ok());
    EXPECT_TRUE(MakeSigningKey(folder_ / "b").ok());
    sheet_.run = "r", sheet_.pid = 7, sheet_.config = "[reward]\ncommand = [\"judge\"]\n";
  }
  std::optional<SigningKey> Private(const std::string& name) {
    return SigningKey::ReadPrivate(folder_ / name).value();
  }
  std::optional<SigningKey> Public(const std::string& name) {
    return SigningKey::ReadPublic(folder_ / (name + ".pub")).value();
  }
  TemporaryDirectory folder_;
  RunSheet sheet_;
};

TEST_F(SheetTest, ASignedSheetIsTakenByWhoHasTheKey) {
  const std::string text = SignSheet(sheet_.ToJson(), Private("a"));
  const auto read = OpenSheet(text, Public("a"));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->config, sheet_.config);
  EXPECT_TRUE(read->signed_by_learner);
  EXPECT_TRUE(OpenSheet(text, Private("a")).ok()) << "a learner looks for another of its kind";
  EXPECT_FALSE(OpenSheet(text, {})->signed_by_learner) << "nobody checked";
}

TEST_F(SheetTest, WithAKeyWhatIsNotSignedByItIsRefused) {
  EXPECT_THAT(OpenSheet(sheet_.ToJson(), Public("a")).status().message(), HasSubstr("not signed"));
  EXPECT_THAT(OpenSheet(SignSheet(sheet_.ToJson(), Private("b")), Public("a")).status().message(),
              HasSubstr("another key"));
  std::string text = SignSheet(sheet_.ToJson(), Private("a"));
  text.replace(text.find("judge"), 5, "/bin/");
  EXPECT_THAT(OpenSheet(text, Public("a")).status().message(), HasSubstr("changed since"));
}

// Whoever can write to Redis can write again what was signed before: a worker must neither leave
// nor follow it.
TEST_F(SheetTest, WhatAnEarlierLearnerWroteIsNotTakenAgain) {
  RunSheet first, next, anew;
  first.version = 1, first.incarnation = 1000;
  RunSheet ended = first;
  ended.ended = true;
  next.version = 7, next.incarnation = 2000;
  SheetOrder order;
  EXPECT_TRUE(order.Take(first));
  EXPECT_TRUE(order.Take(ended));
  EXPECT_TRUE(order.Take(next));
  EXPECT_FALSE(order.Take(first));
  EXPECT_FALSE(order.Take(ended));
  EXPECT_TRUE(order.Take(next)) << "it is written every two seconds";
  // On a machine whose clock is behind; and another run of the same name.
  next.version = 9, next.incarnation = 1500;
  EXPECT_TRUE(order.Take(next));
  anew.version = 1, anew.incarnation = 3000;
  EXPECT_TRUE(order.Take(anew));
}

TEST_F(SheetTest, NumbersThatAreNoneAreRefused) {
  std::string json = sheet_.ToJson();
  ASSERT_TRUE(OpenSheet(json, {}).ok());
  json.replace(json.find("\"pid\":7"), 7, "\"pid\":-1");
  EXPECT_FALSE(OpenSheet(json, {}).ok());
  json.replace(json.find("\"pid\":-1"), 8, "\"pid\":1e300");
  EXPECT_FALSE(OpenSheet(json, {}).ok());
}

}  // namespace
}  // namespace tidemill
