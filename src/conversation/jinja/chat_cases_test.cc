// Real templates on real conversations, against what Python's jinja2 rendered.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "conversation/jinja/chat_template.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

std::string CasesPath() {
  const char* shared = std::getenv("TIDEMILL_SHARED");
  return (shared != nullptr ? shared : SourceDir() + "/../shared") + "/chat/cases.json";
}

std::optional<std::string> TokenOf(const Json& family, const char* key) {
  return family[key].is_string() ? std::optional(family[key].get<std::string>()) : std::nullopt;
}

TEST(ChatCases, EveryPublishedTemplateRendersAsTheReference) {
  if (!std::filesystem::exists(CasesPath())) GTEST_SKIP() << "no " << CasesPath();
  const Json cases = Json::parse(TextOf(CasesPath()));
  int equal = 0;
  for (const Json& one : cases["cases"]) {
    const std::string family_name = one["family"];
    const Json& family = cases["families"][family_name];
    const Json& conversation = cases["conversations"][one["conversation"].get<std::string>()];
    const auto chat = ChatTemplate::Parse(family["template"].get<std::string>(), family_name);
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    RenderInput input;
    input.messages = conversation["messages"];
    if (conversation["tools"].is_string()) input.tools = cases["TOOLS"];
    input.kwargs = conversation["kwargs"];
    input.add_generation_prompt = conversation["add_generation_prompt"];
    input.bos_token = TokenOf(family, "bos_token");
    input.eos_token = TokenOf(family, "eos_token");
    input.now = ParseCivilTime(cases["now"].get<std::string>()).value();
    const auto rendered = chat->Render(input);
    SCOPED_TRACE(family_name + " " + one["conversation"].get<std::string>());
    if (one.contains("error")) {
      const std::string error = one["error"];
      ASSERT_FALSE(rendered.ok());
      EXPECT_NE(rendered.status().message().find(error.substr(error.find(' ') + 1)),
                std::string::npos)
          << rendered.status().message();
    } else {
      ASSERT_TRUE(rendered.ok()) << rendered.status().message();
      EXPECT_EQ(rendered->text, one["expected"].get<std::string>());
    }
    equal += HasFailure() ? 0 : 1;
  }
  EXPECT_EQ(equal, static_cast<int>(cases["cases"].size()));
}

}  // namespace
}  // namespace tidemill
