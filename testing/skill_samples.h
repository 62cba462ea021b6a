// Answers of a curator, and lessons, for tests.
#pragma once

#include <string>

#include "proto/skills.pb.h"
#include "skills/skill_text.h"

namespace tidemill {

inline constexpr char kEnd[] = "=== end\n";

// The operation that inserts this skill.
inline std::string Insert(const std::string& name, const std::string& description,
                          std::string body) {
  if (!body.ends_with('\n')) body += '\n';
  return "=== insert " + name + "\n" + SkillMarkdown({name, description, body});
}

// Of a group, without changes.
inline v1::SkillLesson LessonOf(uint64_t group, const std::string& scope = "p") {
  v1::SkillLesson lesson;
  lesson.set_key("group/" + std::to_string(group));
  lesson.set_scope(scope);
  lesson.set_task("t-" + std::to_string(group));
  lesson.set_group(group);
  return lesson;
}

}  // namespace tidemill
