// The treatment of every field of every API: one table for each, which drives the parser
// and is printed in docs/gateway.md. A field that is in no table is refused with a 400 that names
// it (or ignored, where WireLimits::ignore_unknown says so); null is the same as absent everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gateway/chat_request.h"

namespace tidemill {

enum class Treatment : uint8_t {
  kHonoured,
  kIgnored,  // has no effect here, and none that the client would miss
  kRefused,  // a 400 that names it
};

struct FieldRule {
  // The object the field is in: "" the body, "tools[]" each element of a list, "content[text]" an
  // element of that type.
  std::string_view where;
  // "type=image" stands for that value of `type` (a last "*": any ending); "*" alone for every
  // field without a rule of its own.
  std::string_view name;
  Treatment treatment;
  std::string_view note;
  // A JSON list of values that say no more than absence does: they are never refused.
  std::string_view harmless = "[]";
};

// The table of an API. kCountTokens has that of kMessages; what is inside of the body of kTokenize
// has that of kChat.
std::span<const FieldRule> FieldRules(Api api);

// The rule for a field; nullptr: there is none.
const FieldRule* FindRule(Api api, std::string_view where, std::string_view name);

// Whether `value` is among the rule's harmless ones.
bool IsHarmless(const FieldRule& rule, const WireJson& value);

// The table in Markdown, as docs/gateway.md has it.
std::string FieldRulesMarkdown(Api api);

// Defined beside each translator.
extern const std::span<const FieldRule> kChatRules;
extern const std::span<const FieldRule> kCompletionsRules;
extern const std::span<const FieldRule> kResponsesRules;
extern const std::span<const FieldRule> kMessagesRules;
extern const std::span<const FieldRule> kGenerateRules;
extern const std::span<const FieldRule> kTokenizeRules;
extern const std::span<const FieldRule> kDetokenizeRules;
extern const std::span<const FieldRule> kEmbeddingsRules;

}  // namespace tidemill
