// Skills that a person brings: the same checks as for what a curator writes.
#pragma once

#include <span>
#include <string>

#include "skills/skill_guard.h"
#include "skills/skill_repository.h"

namespace tidemill {

// The lesson, still without key and time: each skill that is new or says something else is inserted
// or takes the place of the one of its name; the others are refused with their reason.
v1::SkillLesson ImportSkills(const std::string& scope, std::span<const SkillText> skills,
                             SkillShelf shelf, const SkillLimits& limits, const SkillGuard& guard);

}  // namespace tidemill
