#include "store/session_reader.h"

#include "store/body_codec.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace tidemill {

SessionReader::SessionReader(std::unique_ptr<Database> db) : db_(std::move(db)) {}
SessionReader::~SessionReader() = default;

Result<std::unique_ptr<SessionReader>> SessionReader::Open(const std::string& path) {
  Database::Options options;
  options.mode = Database::Mode::kRead;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(path, options));
  TM_RETURN_IF_ERROR(CheckSchema(*db, RunDbMigrations(), kSessionsSchema));
  return std::unique_ptr<SessionReader>(new SessionReader(std::move(db)));
}

Result<std::vector<SessionRow>> SessionReader::List(const SessionFilter& filter, size_t limit) {
  std::vector<SessionRow> rows;
  BodyCodec codec;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT s.body, count(t.turn), count(DISTINCT t.question), coalesce(sum(t.tokens), 0), "
      "coalesce(max(t.finished_ms), 0) FROM (SELECT * FROM sessions WHERE (?1 IS NULL OR tenant = "
      "?1) AND (?2 = 0 OR closed_ms = 0) ORDER BY session DESC LIMIT ?3) s LEFT JOIN session_turns "
      "t ON t.session = s.session GROUP BY s.session ORDER BY s.session DESC",
      [&](Statement& row) -> Status {
        SessionRow one;
        TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(0), one.session));
        one.turns = row.Uint(1);
        one.questions = row.Uint(2);
        one.tokens = row.Uint(3);
        one.finished_ms = row.Int(4);
        rows.push_back(std::move(one));
        return Ok();
      },
      filter.tenant, filter.open_only, limit));
  return rows;
}

Result<StoredSession> SessionReader::Read(uint64_t number) {
  return ReadStoredSession(*db_, number);
}

Result<StoredSession> ReadStoredSession(Database& db, uint64_t number) {
  StoredSession stored;
  BodyCodec codec;
  bool found = false;
  TM_RETURN_IF_ERROR(ForEachRow(
      db, "SELECT body FROM sessions WHERE session = ?1",
      [&](Statement& row) {
        found = true;
        return codec.Unpack(row.Bytes(0), stored.session);
      },
      number));
  if (!found) return NotFound("no session " + std::to_string(number) + " is stored");
  TM_RETURN_IF_ERROR(ForEachRow(
      db, "SELECT turn, body FROM session_turns WHERE session = ?1 ORDER BY turn",
      [&](Statement& row) -> Status {
        if (!stored.damage.empty()) return Ok();
        v1::SessionTurn turn;
        const Status read = codec.Unpack(row.Bytes(1), turn);
        if (read.ok()) {
          stored.turns.push_back(std::move(turn));
        } else {
          stored.damage = "turn " + std::to_string(row.Int(0)) + ": " + read.message();
        }
        return Ok();
      },
      number));
  return stored;
}

}  // namespace tidemill
