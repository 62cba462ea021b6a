// The tables say what the parsers do: every field the APIs have is in one, every rule holds, and
// docs/gateway.md shows them as they are (TIDEMILL_UPDATE_DOCS=1 writes them there).
#include "gateway/field_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "gateway/wire.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

struct ApiName {
  Api api;
  const char* name;
};
constexpr ApiName kApis[] = {{Api::kChat, "chat"},
                             {Api::kCompletions, "completions"},
                             {Api::kResponses, "responses"},
                             {Api::kMessages, "messages"},
                             {Api::kGenerate, "generate"},
                             {Api::kTokenize, "tokenize"},
                             {Api::kDetokenize, "detokenize"},
                             {Api::kEmbeddings, "embeddings"}};

// The least that each API takes.
WireJson SmallBody(Api api) {
  const WireJson hi = {{"role", "user"}, {"content", "hi"}};
  switch (api) {
    case Api::kChat:
      return {{"model", "m"}, {"messages", {hi}}};
    case Api::kCompletions:
      return {{"model", "m"}, {"prompt", "hi"}};
    case Api::kResponses:
      return {{"model", "m"}, {"input", "hi"}};
    case Api::kMessages:
    case Api::kCountTokens:
      return {{"model", "m"}, {"max_tokens", 9}, {"messages", {hi}}};
    case Api::kGenerate:
      return {{"token_ids", {1}}};
    case Api::kTokenize:
      return {{"model", "m"}, {"messages", {hi}}};
    case Api::kDetokenize:
      return {{"tokens", {1}}};
    case Api::kEmbeddings:
      return {{"model", "m"}, {"input", "hi"}};
  }
  return {};
}

TEST(FieldRules, NoFieldHasTwoRulesAndEveryNoteFitsATable) {
  for (const ApiName& api : kApis) {
    std::set<std::pair<std::string_view, std::string_view>> seen;
    for (const FieldRule& rule : FieldRules(api.api)) {
      EXPECT_TRUE(seen.insert({rule.where, rule.name}).second) << rule.where << " " << rule.name;
      EXPECT_EQ(rule.note.find('|'), std::string_view::npos);
      EXPECT_TRUE(rule.treatment != Treatment::kRefused || !rule.note.empty()) << rule.name;
      EXPECT_TRUE(WireJson::parse(rule.harmless).is_array()) << rule.name;
    }
  }
}

// The parameters of the official clients (openai 3.49.0, anthropic 2.8.0 for Python, beta ones
// included).
TEST(FieldRules, EveryParameterOfTheOfficialClientsHasARule) {
  const std::vector<std::pair<Api, std::vector<const char*>>> parameters = {
      {Api::kChat,
       {"messages",
        "model",
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "modalities",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options"}},
      {Api::kCompletions,
       {"model", "prompt", "best_of", "echo", "frequency_penalty", "logit_bias", "logprobs",
        "max_tokens", "n", "presence_penalty", "seed", "stop", "stream", "stream_options", "suffix",
        "temperature", "top_p", "user"}},
      {Api::kResponses,
       {"access_programs",
        "background",
        "context_management",
        "conversation",
        "image",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user"}},
      {Api::kMessages,
       {"max_tokens",
        "messages",
        "model",
        "cache_control",
        "compaction",
        "container",
        "context_management",
        "diagnostics",
        "fallback_credit_token",
        "fallbacks",
        "inference_geo",
        "mcp_servers",
        "metadata",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "thread",
        "tool_choice",
        "tools",
        "betas",
        "user_profile_id",
        "workspace_id",
        "temperature",
        "top_k",
        "top_p"}}};
  for (const auto& [api, names] : parameters) {
    for (const char* name : names) EXPECT_NE(FindRule(api, "", name), nullptr) << name;
  }
}

TEST(FieldRules, WhatIsRefusedIsRefusedByNameAndHarmlessValuesAreNot) {
  for (const ApiName& api : kApis) {
    ASSERT_TRUE(ParseRequest(api.api, SmallBody(api.api).dump(), {}).ok()) << api.name;
    for (const FieldRule& rule : FieldRules(api.api)) {
      if (!rule.where.empty() || rule.treatment != Treatment::kRefused) continue;
      const std::string field(rule.name);
      SCOPED_TRACE(std::string(api.name) + " " + field);
      WireJson body = SmallBody(api.api);
      body[field] = {{"no", "harmless value"}};
      const ParsedRequest refused = ParseRequest(api.api, body.dump(), {});
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error.status, 400);
      EXPECT_EQ(refused.error.param, field);
      EXPECT_THAT(refused.error.message, testing::HasSubstr(field));
      for (const WireJson& harmless : WireJson::parse(rule.harmless)) {
        body[field] = harmless;
        EXPECT_TRUE(ParseRequest(api.api, body.dump(), {}).ok()) << harmless;
      }
      body[field] = nullptr;
      EXPECT_TRUE(ParseRequest(api.api, body.dump(), {}).ok());
    }
  }
}

TEST(FieldRules, WhatIsHonouredIsStrictOnItsType) {
  for (const ApiName& api : kApis) {
    for (const FieldRule& rule : FieldRules(api.api)) {
      if (!rule.where.empty() || rule.treatment != Treatment::kHonoured) continue;
      WireJson body = SmallBody(api.api);
      body[std::string(rule.name)] = WireJson::array({WireJson::array()});
      const ParsedRequest refused = ParseRequest(api.api, body.dump(), {});
      ASSERT_FALSE(refused.ok()) << api.name << " " << rule.name;
      EXPECT_EQ(refused.error.param.find(rule.name), 0u) << refused.error.message;
    }
  }
}

TEST(FieldRules, WhatIsIgnoredIsNamedInTheRequest) {
  for (const ApiName& api : kApis) {
    for (const FieldRule& rule : FieldRules(api.api)) {
      if (!rule.where.empty() || rule.treatment != Treatment::kIgnored) continue;
      SCOPED_TRACE(std::string(api.name) + " " + std::string(rule.name));
      WireJson body = SmallBody(api.api);
      body[std::string(rule.name)] = "x";
      const ParsedRequest parsed = ParseRequest(api.api, body.dump(), {});
      ASSERT_TRUE(parsed.ok()) << parsed.error.message;
      EXPECT_THAT(parsed.request->ignored, testing::ElementsAre(std::string(rule.name)));
    }
  }
}

TEST(FieldRules, WhatIsUnknownIsRefusedByNameUnlessToldOtherwise) {
  for (const ApiName& api : kApis) {
    WireJson body = SmallBody(api.api);
    body["brand_new"] = 1;
    const ParsedRequest refused = ParseRequest(api.api, body.dump(), {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error.param, "brand_new");
    EXPECT_EQ(refused.error.code, "unknown_parameter");
    const ParsedRequest ignored = ParseRequest(api.api, body.dump(), {.ignore_unknown = true});
    ASSERT_TRUE(ignored.ok());
    EXPECT_THAT(ignored.request->unknown, testing::ElementsAre("brand_new"));
  }
}

TEST(FieldRules, ThePageShowsTheTables) {
  const std::string path = SourceDir() + "/docs/gateway.md";
  std::string page = TextOf(path);
  for (const ApiName& api : kApis) {
    const std::string begin = std::string("<!-- fields of ") + api.name + " -->\n";
    const size_t from = page.find(begin);
    ASSERT_NE(from, std::string::npos) << begin;
    const size_t to = page.find("<!-- end -->", from);
    ASSERT_NE(to, std::string::npos);
    const size_t table = from + begin.size();
    if (std::getenv("TIDEMILL_UPDATE_DOCS") != nullptr) {
      page.replace(table, to - table, FieldRulesMarkdown(api.api));
    } else {
      EXPECT_EQ(page.substr(table, to - table), FieldRulesMarkdown(api.api)) << api.name;
    }
  }
  if (std::getenv("TIDEMILL_UPDATE_DOCS") != nullptr) std::ofstream(path) << page;
}

}  // namespace
}  // namespace tidemill
