#include "store/case_reader.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "store/body_codec.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace tidemill {

Result<CasePage> ReadCasePage(Database& db, uint64_t after, size_t most) {
  CasePage page;
  page.last = after;
  BodyCodec codec;
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      "SELECT number, body FROM cases WHERE body IS NOT NULL AND number > ?1 ORDER BY number LIMIT "
      "?2",
      [&](Statement& row) -> Status {
        ++page.rows;
        page.last = row.Uint(0);
        CasesState::Learned one;
        one.number = page.last;
        if (codec.Unpack(row.Bytes(1), one.record).ok()) page.cases.push_back(std::move(one));
        return Ok();
      },
      after, std::min<size_t>(most, INT64_MAX)));
  return page;
}

Result<std::vector<CasesState::Learned>> ReadCases(Database& db) {
  TM_ASSIGN_OR_RETURN(CasePage all, ReadCasePage(db, 0, SIZE_MAX));
  return std::move(all.cases);
}

Result<uint64_t> CountCases(Database& db, uint64_t up_to) {
  TM_RETURN_IF_ERROR(CheckSchema(db, RunDbMigrations(), kCasesSchema));
  uint64_t count = 0;
  TM_RETURN_IF_ERROR(ForEachRow(
      db, "SELECT COUNT(*) FROM cases WHERE body IS NOT NULL AND number <= ?1",
      [&](Statement& row) -> Status {
        count = row.Uint(0);
        return Ok();
      },
      up_to));
  return count;
}

Result<std::vector<CasesState::Learned>> ReadCases(const std::string& db_path) {
  Database::Options options;
  options.mode = Database::Mode::kRead;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Database> db, Database::Open(db_path, options));
  TM_RETURN_IF_ERROR(CheckSchema(*db, RunDbMigrations(), kCasesSchema));
  return ReadCases(*db);
}

}  // namespace tidemill
