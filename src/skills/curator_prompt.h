// The question to a curator: the skills of a project, the episodes of one task with their verdict,
// and the format of the answer. What episodes and tools said is fenced and declared to be data.
#pragma once

#include <string>
#include <vector>

#include "judge/judge_question.h"
#include "proto/tidemill.pb.h"
#include "skills/skill_repository.h"

namespace tidemill {

// `episodes`: of one task. Those skills that they were shown stand there in full, and as many of
// the others as fit.
JudgePrompt CuratorPrompt(const SkillShelf& shelf, const std::vector<v1::CaseRecord>& episodes,
                          const SkillLimits& limits);

}  // namespace tidemill
