// The readers' side of memory in run.db, for people: while a run goes on, or after it.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "store/run_db.h"

namespace tidemill {

class Database;

// Every case that was not erased, by number; one that is damaged is left out. kInvalid: the run was
// written before there was memory.
Result<std::vector<CasesState::Learned>> ReadCases(const std::string& db_path);
Result<std::vector<CasesState::Learned>> ReadCases(Database& db);

}  // namespace tidemill
