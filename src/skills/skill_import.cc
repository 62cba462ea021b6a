#include "skills/skill_import.h"

#include <utility>

#include "core/text.h"

namespace tidemill {

v1::SkillLesson ImportSkills(const std::string& scope, std::span<const SkillText> skills,
                             SkillShelf shelf, const SkillLimits& limits, const SkillGuard& guard) {
  v1::SkillLesson lesson;
  lesson.set_scope(scope);
  for (const SkillText& skill : skills) {
    auto change = shelf.Put(skill, limits);
    Status status = change.status();
    if (status.code() == Code::kExists) continue;
    if (status.ok()) status = guard.Check(skill, {});
    if (status.ok()) {
      shelf.Take(*change, {});
      *lesson.add_changes() = std::move(*change);
      continue;
    }
    v1::SkillRefusal& refused = *lesson.add_refused();
    refused.set_name(Beginning(skill.name, 2 * kSkillNameBytes));
    refused.set_reason(ToUtf8(status.message()));
  }
  return lesson;
}

}  // namespace tidemill
