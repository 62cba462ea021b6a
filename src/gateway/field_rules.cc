#include "gateway/field_rules.h"

#include <fmt/format.h>

#include <array>
#include <unordered_map>

#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr size_t kApiCount = 9;

using RuleIndex = std::unordered_map<std::string, const FieldRule*>;

std::string RuleKey(std::string_view where, std::string_view name) {
  std::string key;
  key.reserve(where.size() + name.size() + 1);
  return key.append(where).append("\n").append(name);
}

RuleIndex IndexRules(Api api) {
  RuleIndex index;
  for (const FieldRule& rule : FieldRules(api)) {
    index.emplace(RuleKey(rule.where, rule.name), &rule);
  }
  if (api != Api::kTokenize) return index;
  for (const FieldRule& rule : kChatRules) {
    if (!rule.where.empty()) index.emplace(RuleKey(rule.where, rule.name), &rule);
  }
  return index;
}

const RuleIndex& IndexOf(Api api) {
  static const std::array<RuleIndex, kApiCount> indexes = {
      IndexRules(Api::kChat),     IndexRules(Api::kCompletions), IndexRules(Api::kResponses),
      IndexRules(Api::kMessages), IndexRules(Api::kCountTokens), IndexRules(Api::kGenerate),
      IndexRules(Api::kTokenize), IndexRules(Api::kDetokenize),  IndexRules(Api::kEmbeddings)};
  return indexes[static_cast<size_t>(api)];
}

std::string_view TreatmentName(Treatment treatment) {
  switch (treatment) {
    case Treatment::kHonoured:
      return "honoured";
    case Treatment::kIgnored:
      return "ignored";
    case Treatment::kRefused:
      return "refused";
  }
  return "";
}

}  // namespace

std::span<const FieldRule> FieldRules(Api api) {
  switch (api) {
    case Api::kChat:
      return kChatRules;
    case Api::kCompletions:
      return kCompletionsRules;
    case Api::kResponses:
      return kResponsesRules;
    case Api::kMessages:
    case Api::kCountTokens:
      return kMessagesRules;
    case Api::kGenerate:
      return kGenerateRules;
    case Api::kTokenize:
      return kTokenizeRules;
    case Api::kDetokenize:
      return kDetokenizeRules;
    case Api::kEmbeddings:
      return kEmbeddingsRules;
  }
  return {};
}

const FieldRule* FindRule(Api api, std::string_view where, std::string_view name) {
  const RuleIndex& index = IndexOf(api);
  if (const auto found = index.find(RuleKey(where, name)); found != index.end()) {
    return found->second;
  }
  if (name.starts_with("type=")) {
    // A type with a date behind it: "web_search_20250305" is a "web_search_*".
    for (size_t cut = name.rfind('_'); cut != std::string_view::npos && cut > 0;
         cut = name.rfind('_', cut - 1)) {
      const auto found = index.find(RuleKey(where, std::string(name.substr(0, cut + 1)) + "*"));
      if (found != index.end()) return found->second;
    }
    return nullptr;
  }
  const auto found = index.find(RuleKey(where, "*"));
  return found == index.end() ? nullptr : found->second;
}

bool IsHarmless(const FieldRule& rule, const WireJson& value) {
  for (const WireJson& harmless : WireJson::parse(rule.harmless)) {
    if (harmless == value) return true;
  }
  return false;
}

std::string FieldRulesMarkdown(Api api) {
  std::string text = "| in | field | what becomes of it | |\n| --- | --- | --- | --- |\n";
  for (const FieldRule& rule : FieldRules(api)) {
    std::string what(TreatmentName(rule.treatment));
    std::string values;
    for (const WireJson& value : WireJson::parse(rule.harmless)) {
      values += (values.empty() ? "" : " or ") + fmt::format("`{}`", DumpWire(value));
    }
    if (!values.empty()) what += " unless " + values;
    text += fmt::format("| {} | `{}` | {} | {} |\n",
                        rule.where.empty() ? "the body" : fmt::format("`{}`", rule.where),
                        rule.name, what, rule.note);
  }
  return text;
}

}  // namespace tidemill
