// The readers' side of skills in run.db: while a run goes on, or after it.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "store/run_db.h"

namespace tidemill {

class Database;

// Every lesson, by number. kInvalid: the run was written before there were skills. kCorrupt: one
// cannot be read.
Result<std::vector<SkillsState::Learned>> ReadSkillLessons(const std::string& db_path);
Result<std::vector<SkillsState::Learned>> ReadSkillLessons(Database& db);

}  // namespace tidemill
