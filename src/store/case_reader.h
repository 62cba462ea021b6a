// The readers' side of memory in run.db, for people: while a run goes on, or after it.
#pragma once

#include <cstddef>
#include <cstdint>
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

// A part of them: up to `most` rows with numbers above `after`.
struct CasePage {
  std::vector<CasesState::Learned> cases;
  uint64_t rows = 0;  // damaged ones too
  uint64_t last = 0;  // number of the last row; `after` without one
};
Result<CasePage> ReadCasePage(Database& db, uint64_t after, size_t most);
// Rows that were not erased, up to this number. kInvalid: as ReadCases.
Result<uint64_t> CountCases(Database& db, uint64_t up_to);

}  // namespace tidemill
