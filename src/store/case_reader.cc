#include "store/case_reader.h"

#include "store/body_codec.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace tidemill {

Result<std::vector<CasesState::Learned>> ReadCases(Database& db) {
  std::vector<CasesState::Learned> cases;
  BodyCodec codec;
  TM_RETURN_IF_ERROR(
      ForEachRow(db, "SELECT number, body FROM cases WHERE body IS NOT NULL ORDER BY number",
                 [&](Statement& row) -> Status {
                   CasesState::Learned one;
                   one.number = row.Uint(0);
                   if (codec.Unpack(row.Bytes(1), one.record).ok()) cases.push_back(std::move(one));
                   return Ok();
                 }));
  return cases;
}

Result<std::vector<CasesState::Learned>> ReadCases(const std::string& db_path) {
  Database::Options options;
  options.mode = Database::Mode::kRead;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Database> db, Database::Open(db_path, options));
  TM_RETURN_IF_ERROR(CheckSchema(*db, RunDbMigrations(), kCasesSchema));
  return ReadCases(*db);
}

}  // namespace tidemill
