#include "model/tokenizer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using ::testing::HasSubstr;

TEST(TokenizerConfigFile, ReadsTokensAndTemplates) {
  const auto config = ParseTokenizerConfig(
      R"({"eos_token": {"content": "<e>"}, "pad_token": "<p>", "bos_token": null,
          "chat_template": [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]})",
      "c");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->eos_token, "<e>");
  EXPECT_EQ(config->pad_token, "<p>");
  EXPECT_FALSE(config->bos_token);
  EXPECT_EQ(config->chat_template, "d");
  EXPECT_THAT(ParseTokenizerConfig(R"({"eos_token": 3})", "c").status().message(),
              HasSubstr("c: \"eos_token\""));
}

}  // namespace
}  // namespace tidemill
