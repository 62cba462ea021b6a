#include "store/skill_reader.h"

#include <memory>
#include <utility>

#include "store/body_codec.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace tidemill {

Result<std::vector<SkillsState::Learned>> ReadSkillLessons(Database& db) {
  std::vector<SkillsState::Learned> lessons;
  BodyCodec codec;
  TM_RETURN_IF_ERROR(ForEachRow(
      db, "SELECT number, body FROM skill_lessons ORDER BY number", [&](Statement& row) -> Status {
        SkillsState::Learned one;
        one.number = row.Uint(0);
        const Status read = codec.Unpack(row.Bytes(1), one.lesson);
        if (!read.ok()) {
          return read.WithContext("lesson " + std::to_string(one.number) + " of the skills");
        }
        lessons.push_back(std::move(one));
        return Ok();
      }));
  return lessons;
}

Result<std::vector<SkillsState::Learned>> ReadSkillLessons(const std::string& db_path) {
  Database::Options options;
  options.mode = Database::Mode::kRead;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Database> db, Database::Open(db_path, options));
  TM_RETURN_IF_ERROR(CheckSchema(*db, RunDbMigrations(), kSkillsSchema));
  return ReadSkillLessons(*db);
}

}  // namespace tidemill
