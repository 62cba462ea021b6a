#include "skills/skill_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr std::string_view kFence = "---";

// Takes the first line off, without its end. Nothing: there is none.
std::optional<std::string_view> TakeLine(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// A scalar that YAML reads as this text without quotes.
bool IsPlain(std::string_view text) {
  constexpr std::string_view kSafe = " ,.;()/_+-";
  if (text.empty() || !IsLetter(text.front()) || text.back() == ' ') return false;
  for (const std::string_view word : {"true", "false", "null", "yes", "no", "on", "off"}) {
    const bool same = std::equal(text.begin(), text.end(), word.begin(), word.end(),
                                 [](char a, char b) { return (a | 0x20) == b; });
    if (same) return false;
  }
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return IsLetter(c) || (c >= '0' && c <= '9') || kSafe.find(c) != std::string_view::npos;
  });
}

std::string Scalar(const std::string& text) {
  if (IsPlain(text)) return text;
  // A string of JSON is one of YAML.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::string> ReadScalar(std::string_view text) {
  if (text.starts_with('"')) {
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!value.is_string()) return Invalid("a string in double quotes that does not end");
    return value.get<std::string>();
  }
  if (text.starts_with('\'')) {
    if (text.size() < 2 || !text.ends_with('\'')) {
      return Invalid("a string in single quotes that does not end");
    }
    std::string out;
    const std::string_view inside = text.substr(1, text.size() - 2);
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] == '\'' && (++i == inside.size() || inside[i] != '\'')) {
        return Invalid("a single quote within single quotes must be doubled");
      }
      out += inside[i];
    }
    return out;
  }
  constexpr std::string_view kSpecial = "[]{}#&*!|>%@`,?:-";
  if (text.empty()) return Invalid("an empty value");
  if (kSpecial.find(text.front()) != std::string_view::npos ||
      text.find(": ") != std::string_view::npos || text.find(" #") != std::string_view::npos ||
      text.ends_with(':')) {
    return Invalid("a value that needs double quotes");
  }
  return std::string(text);
}

}  // namespace

Status CheckSkillName(std::string_view name) {
  const auto wrong = [&](const char* why) {
    return Invalid("the name \"" + Beginning(ForTerminal(name), kSkillNameBytes) + "\" " + why);
  };
  if (name.empty()) return Invalid("a skill without a name");
  if (name.size() > kSkillNameBytes) return wrong("has more than 64 characters");
  const bool known = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!known) return wrong("must be made of a-z, 0-9 and dashes");
  if (name.front() == '-' || name.back() == '-' || name.find("--") != std::string_view::npos) {
    return wrong("must have single dashes between letters and digits");
  }
  return Ok();
}

Status CheckSkillText(const SkillText& skill, size_t body_bytes) {
  TM_RETURN_IF_ERROR(CheckSkillName(skill.name));
  if (skill.description.empty()) return Invalid("the description is empty");
  if (skill.description.size() > kSkillDescriptionBytes) {
    return Invalid("the description has " + std::to_string(skill.description.size()) +
                   " bytes; at most 1024");
  }
  if (skill.description.find_first_of("\n\r\t<>") != std::string::npos) {
    return Invalid("the description must be one line without < and >");
  }
  if (Trimmed(skill.description) != skill.description) {
    return Invalid("the description begins or ends with a space");
  }
  if (skill.body.size() > body_bytes) {
    return Invalid("the body has " + std::to_string(skill.body.size()) + " bytes; at most " +
                   std::to_string(body_bytes));
  }
  if (skill.body.find_first_not_of(" \t\n") == std::string::npos) {
    return Invalid("the body is empty");
  }
  for (const std::string* text : {&skill.description, &skill.body}) {
    if (!IsUtf8(*text) || ForTerminal(*text) != *text) {
      return Invalid("it holds control characters, or is no UTF-8");
    }
  }
  return Ok();
}

Result<SkillText> ParseSkill(std::string_view text) {
  SkillText skill;
  if (TakeLine(text) != kFence) return Invalid("line 1: must be ---");
  bool named = false, described = false, closed = false;
  for (size_t at = 2; !closed; ++at) {
    const auto line = TakeLine(text);
    const std::string where = "line " + std::to_string(at) + ": ";
    if (!line) return Invalid(where + "the head does not end with ---");
    if (*line == kFence) {
      closed = true;
      continue;
    }
    const size_t colon = line->find(':');
    const std::string_view key = line->substr(0, colon);
    if (colon == std::string_view::npos || (key != "name" && key != "description")) {
      return Invalid(where + "must be \"name: ..\" or \"description: ..\"");
    }
    bool& seen = key == "name" ? named : described;
    if (seen) return Invalid(where + "says " + std::string(key) + " a second time");
    seen = true;
    auto value = ReadScalar(Trimmed(line->substr(colon + 1)));
    if (!value.ok()) return value.status().WithContext(where + std::string(key));
    (key == "name" ? skill.name : skill.description) = std::move(*value);
  }
  if (!named) return Invalid("the head has no name");
  if (!described) return Invalid("the head has no description");
  skill.body = std::string(text);
  std::erase(skill.body, '\r');
  skill.body.erase(0, std::min(skill.body.find_first_not_of('\n'), skill.body.size()));
  skill.body.erase(skill.body.find_last_not_of(" \n") + 1);
  skill.body += '\n';
  return skill;
}

std::string SkillMarkdown(const SkillText& skill) {
  return "---\nname: " + Scalar(skill.name) + "\ndescription: " + Scalar(skill.description) +
         "\n---\n" + skill.body;
}

}  // namespace tidemill
