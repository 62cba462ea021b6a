#include "live/canonical.h"

#include <gtest/gtest.h>

#include "gateway/wire.h"
#include "live/session_name.h"

namespace tidemill {
namespace {

// The last message of a chat request, as the gateway reads it.
WireJson LastMessage(const std::string& message) {
  const std::string body =
      R"({"model": "m", "messages": [{"role": "user", "content": "hi"}, )" + message + "]}";
  ParsedRequest parsed = ParseRequest(Api::kChat, body, {});
  EXPECT_TRUE(parsed.ok()) << parsed.error.message;
  return parsed.ok() ? parsed.request->messages.back() : WireJson();
}

uint64_t KeyOf(const std::string& message) {
  return MessageKey(LastMessage(message));
}

constexpr const char* kAnswer =
    R"({"role": "assistant", "content": "I will.", "tool_calls": [{"id": "call_1", "type": "function",
        "function": {"name": "bash", "arguments": "{\"cmd\":\"ls\",\"n\":1.0,\"deep\":{\"a\":[1,2]}}"}}]})";

TEST(MessageKey, IsTheSameForEveryRewriteThatRealClientsMake) {
  const uint64_t key = KeyOf(kAnswer);
  for (
      const char* rewritten : {
          // Other ids, spaces and key order in the arguments, an index, keys in another order.
          R"({"tool_calls": [{"index": 0, "function": {"arguments": "{ \"deep\": {\"a\": [1, 2]}, \"n\": 1, \"cmd\": \"ls\" }", "name": "bash"}, "type": "function", "id": "call1"}], "content": "I will.", "role": "assistant"})",
          // Escapes instead of characters, nulls added, reasoning echoed.
          R"({"role": "assistant", "content": "I will.", "refusal": null, "audio": null, "annotations": null, "function_call": null, "reasoning_content": "hm", "tool_calls": [{"id": "x", "type": "function", "function": {"name": "bash", "arguments": "{\"\u0063md\":\"l\\u0073\",\"n\":1.0,\"deep\":{\"a\":[1,2]}}"}}]})",
          // A newline gained or lost at an end; unknown fields of litellm.
          R"({"role": "assistant", "content": "\nI will.\n", "provider_specific_fields": {"refusal": null}, "tool_calls": [{"id": "x", "type": "function", "function": {"name": "bash", "arguments": "{\"cmd\":\"ls\",\"n\":1.0,\"deep\":{\"a\":[1,2]}}"}}]})",
      }) {
    EXPECT_EQ(KeyOf(rewritten), key) << rewritten;
  }
}

TEST(MessageKey, NullMissingAndEmptyContentAreOne) {
  const std::string call =
      R"("tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})";
  const uint64_t key = KeyOf(R"({"role": "assistant", "content": null, )" + call);
  EXPECT_EQ(KeyOf(R"({"role": "assistant", "content": "", )" + call), key);
  EXPECT_EQ(KeyOf(R"({"role": "assistant", )" + call), key);
}

TEST(MessageKey, DiffersWhereTheMeaningDoes) {
  const uint64_t key = KeyOf(kAnswer);
  for (
      const char* other : {
          R"({"role": "assistant", "content": "I will not.", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{\"cmd\":\"ls\",\"n\":1.0,\"deep\":{\"a\":[1,2]}}"}}]})",
          R"({"role": "assistant", "content": "I will.", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "sh", "arguments": "{\"cmd\":\"ls\",\"n\":1.0,\"deep\":{\"a\":[1,2]}}"}}]})",
          R"({"role": "assistant", "content": "I will.", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{\"cmd\":\"ls\",\"n\":1.5,\"deep\":{\"a\":[1,2]}}"}}]})",
          R"({"role": "assistant", "content": "I will.", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{\"cmd\":\"ls\",\"n\":1.0,\"deep\":{\"a\":[2,1]}}"}}]})",
          R"({"role": "user", "content": "I will."})",
          R"({"role": "assistant", "content": "I will."})",
      }) {
    EXPECT_NE(KeyOf(other), key) << other;
  }
  // Lengths stand before the parts: they cannot run into one another.
  EXPECT_NE(MessageKey({{"role", "user"}, {"content", "a"}, {"name", "b"}}),
            MessageKey({{"role", "user"}, {"content", "ab"}}));
}

TEST(MessageKey, WhatDayItIsDoesNotMatterInWhatOthersWrote) {
  auto key = [](const std::string& role, const std::string& content) {
    return MessageKey({{"role", role}, {"content", content}});
  };
  EXPECT_EQ(key("system", "You code.\nToday's date: 2026-11-16\nBe kind."),
            key("system", "You code.\nToday's date: 2026-11-17\nBe kind."));
  EXPECT_NE(key("assistant", "Today's date: 2026-11-16"), key("assistant", "Today's date: 2026"));
}

TEST(SessionName, IsWhatTheClientSaysThenWhatItsAgentSaysThenIdsInTheBody) {
  const SessionHints hints = {{"prompt_cache_key", "01a1e289-81b6-7db2-bb41-b15a26463603"}};
  EXPECT_EQ(NameSession({{"x-tidemill-session", "mine"}, {"session-id", "s"}}, hints).name, "mine");
  EXPECT_EQ(NameSession({{"session-id", "s"}}, hints).named_by, "session-id");
  EXPECT_EQ(NameSession({}, hints).named_by, "prompt_cache_key");
  EXPECT_EQ(NameSession({}, {{"prompt_cache_key", "my-app"}}).name, "") << "shared by many";
  EXPECT_EQ(
      NameSession({}, {{"metadata.user_id", R"({"device_id":"d","session_id":"c5be"})"}}).name,
      "c5be");
  EXPECT_EQ(NameSession({}, {{"metadata.user_id", "user_1_account__session_c5be"}}).name, "c5be");
  EXPECT_EQ(NameSession({}, {{"metadata.user_id", "alice"}}).name, "") << "a person";
  EXPECT_EQ(NameSession({{"x-session-id", std::string(10'000, 'x')}}, {}).name, "");
}

TEST(SessionName, HelpersAndRetriesSaySoInHeaders) {
  EXPECT_EQ(
      DeclaredSide({{"x-codex-turn-metadata", R"({"agent_name":"/root","request_kind":"turn"})"}}),
      "");
  EXPECT_EQ(DeclaredSide(
                {{"x-codex-turn-metadata", R"({"agent_name":"/root/a","request_kind":"turn"})"}}),
            "subagent");
  EXPECT_EQ(DeclaredSide({{"x-codex-turn-metadata", R"({"request_kind":"compact"})"}}), "helper");
  EXPECT_EQ(DeclaredSide({{"x-codex-turn-metadata", "{broken"}}), "");
  EXPECT_EQ(DeclaredSide({{"x-openai-subagent", "review"}}), "subagent");
  EXPECT_TRUE(IsDeclaredRetry({{"x-stainless-retry-count", "2"}}));
  EXPECT_FALSE(IsDeclaredRetry({{"x-stainless-retry-count", "0"}}));
  EXPECT_FALSE(IsDeclaredRetry({{"x-stainless-retry-count", "many"}}));
  EXPECT_EQ(AgentName({{"user-agent", "claude-cli/2.1.325 (external)"}}), "claude-cli");
  EXPECT_EQ(AgentName({{"user-agent", "\x1b[31m"}}), "unknown");
}

}  // namespace
}  // namespace tidemill
