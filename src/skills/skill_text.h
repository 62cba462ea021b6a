// A skill as a file: SKILL.md, a YAML head with name and description and a body of Markdown, the
// open format that coding agents load.
//
//   ---
//   name: read-logs
//   description: Where the logs of a build are and what to look for in them.
//   ---
//   Body.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

inline constexpr size_t kSkillNameBytes = 64;
inline constexpr size_t kSkillDescriptionBytes = 1024;
inline constexpr char kSkillFile[] = "SKILL.md";

struct SkillText {
  std::string name;
  std::string description;
  std::string body;  // ends with a line end
};

// A name is 1 to 64 of a-z 0-9 and single dashes between them.
Status CheckSkillName(std::string_view name);
// What any skill must be: the name, a description of one line, a body of readable UTF-8 of at most
// `body_bytes`. kInvalid says what is wrong.
Status CheckSkillText(const SkillText& skill, size_t body_bytes);

// Strict: the head has `name` and `description` and nothing else. kInvalid names the line.
Result<SkillText> ParseSkill(std::string_view text);
// The file; ParseSkill gives the same skill back.
std::string SkillMarkdown(const SkillText& skill);

}  // namespace tidemill
