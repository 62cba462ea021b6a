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
      "coalesce(max(t.finished_ms), 0), (SELECT count(*) FROM signals g WHERE g.session = "
      "s.session), (SELECT avg(reward) FROM trajectories r WHERE r.grp = s.session AND r.purpose = "
      "3), (SELECT coalesce(sum(uses > 0), 0) FROM trajectories r WHERE r.grp = s.session AND "
      "r.purpose = 3) FROM (SELECT * FROM sessions WHERE tenant <> '' AND (?1 IS NULL OR "
      "tenant = ?1) AND (?2 = 0 OR closed_ms = 0) ORDER BY session DESC LIMIT ?3) s LEFT JOIN "
      "session_turns "
      "t ON t.session = s.session GROUP BY s.session ORDER BY s.session DESC",
      [&](Statement& row) -> Status {
        SessionRow one;
        TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(0), one.session));
        one.turns = row.Uint(1);
        one.questions = row.Uint(2);
        one.tokens = row.Uint(3);
        one.finished_ms = row.Int(4);
        one.signals = row.Uint(5);
        if (!row.IsNull(6)) one.reward = row.Double(6);
        one.used = row.Uint(7);
        rows.push_back(std::move(one));
        return Ok();
      },
      filter.tenant, filter.open_only, limit));
  return rows;
}

Result<StoredSession> SessionReader::Read(uint64_t number) {
  return ReadStoredSession(*db_, number);
}

Result<std::vector<v1::Signal>> SessionReader::Signals(uint64_t number) {
  std::vector<v1::Signal> signals;
  BodyCodec codec;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_, "SELECT body FROM signals WHERE session = ?1 ORDER BY at_ms",
      [&](Statement& row) { return codec.Unpack(row.Bytes(0), signals.emplace_back()); }, number));
  return signals;
}

Result<std::vector<SessionUse>> SessionReader::Uses(uint64_t number) {
  std::vector<SessionUse> uses;
  BodyCodec codec;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT t.task, t.member, t.fate, t.fate_reason, t.reward, coalesce((SELECT max(step) FROM "
      "uses u WHERE u.seq = t.seq AND u.abandoned = 0), 0), b.body FROM trajectories t JOIN bodies "
      "b USING (seq) WHERE t.grp = ?1 AND t.purpose = 3 ORDER BY t.seq",
      [&](Statement& row) -> Status {
        SessionUse& use = uses.emplace_back();
        use.task = row.Text(0);
        use.member = static_cast<uint32_t>(row.Int(1));
        use.fate = row.Text(2);
        use.fate_reason = row.Text(3);
        if (!row.IsNull(4)) use.reward = row.Double(4);
        use.step = row.Uint(5);
        v1::Trajectory trajectory;
        TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(6), trajectory));
        for (const v1::Turn& turn : trajectory.turns()) use.turns.push_back(turn.session_turn());
        return Ok();
      },
      number));
  return uses;
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
