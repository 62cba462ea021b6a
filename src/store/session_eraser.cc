#include "store/session_eraser.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "core/fate.h"
#include "store/body_codec.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

// Where something of a session may be. A table that holds some gets a line here; ?1 is the session.
struct ErasePlace {
  const char* name;
  const char* bodies;  // gives what is deleted
  const char* remove;
  const char* table;
};
#define TM_OF_SESSION "seq IN (SELECT seq FROM trajectories WHERE purpose = 3 AND grp = ?1)"
constexpr ErasePlace kErasePlaces[] = {
    {"turns", "SELECT body FROM session_turns WHERE session = ?1",
     "DELETE FROM session_turns WHERE session = ?1", "session_turns"},
    {"signals", "SELECT body FROM signals WHERE session = ?1",
     "DELETE FROM signals WHERE session = ?1", "signals"},
    {"verdicts", "SELECT body FROM verdicts WHERE " TM_OF_SESSION,
     "DELETE FROM verdicts WHERE " TM_OF_SESSION, "verdicts"},
    {"trajectories", "SELECT body FROM bodies WHERE " TM_OF_SESSION,
     "DELETE FROM bodies WHERE " TM_OF_SESSION, "bodies"},
    {"cases", "SELECT body FROM cases WHERE session = ?1 AND body IS NOT NULL",
     "UPDATE cases SET body = NULL, scope = '', tenant = '' WHERE session = ?1", "cases"},
};
#undef TM_OF_SESSION

constexpr auto kLogPause = std::chrono::milliseconds(100);

Status FindSessions(Database& db, const EraseWhat& what, Erased& erased) {
  const int64_t session = what.session ? static_cast<int64_t>(*what.session) : -1;
  return ForEachRow(
      db,
      "SELECT session, tenant FROM sessions WHERE tenant <> '' AND ((?1 >= 0 AND session = ?1) OR "
      "(?1 < 0 "
      "AND tenant = ?2)) ORDER BY session",
      [&](Statement& row) {
        erased.sessions.push_back(row.Uint(0));
        if (erased.tenants.empty() || erased.tenants.back() != row.Text(1)) {
          erased.tenants.push_back(row.Text(1));
        }
        return Ok();
      },
      session, what.tenant);
}

// The words of people and of the model in a turn.
void AddTexts(std::string_view body, BodyCodec& codec, std::vector<std::string>& texts) {
  v1::SessionTurn turn;
  if (!codec.Unpack(body, turn).ok()) return;  // damaged: its bytes are searched for all the same
  texts.push_back(turn.messages_json());
  texts.push_back(turn.answer_json());
}

Status FindUses(Database& db, uint64_t session, Erased& erased) {
  return ForEachRow(
      db,
      "SELECT DISTINCT u.step, coalesce(s.version, 0), u.abandoned <> 0 FROM uses u JOIN "
      "trajectories t USING (seq) LEFT JOIN steps s ON s.step = u.step AND s.abandoned = "
      "u.abandoned WHERE t.purpose = 3 AND t.grp = ?1",
      [&](Statement& row) {
        erased.uses.push_back({row.Uint(0), row.Uint(1), row.Int(2) != 0});
        return Ok();
      },
      session);
}

Status FindCheckpoint(Database& db, Erased& erased) {
  uint64_t first = UINT64_MAX;
  for (const Erased::Use& use : erased.uses) {
    if (!use.abandoned) first = std::min(first, use.step);
  }
  if (first == UINT64_MAX) return Ok();
  return ForEachRow(
      db,
      "SELECT step, version, path, at_ms FROM checkpoints WHERE abandoned = 0 AND step < ?1 ORDER "
      "BY step DESC LIMIT 1",
      [&](Statement& row) {
        erased.before = {row.Uint(0), row.Uint(1), row.Text(2), row.Int(3)};
        return Ok();
      },
      first);
}

// Of the same tenants: nobody else is shown them.
Status FindShown(Database& db, BodyCodec& codec, const std::set<uint64_t>& cases, Erased& erased) {
  if (cases.empty()) return Ok();
  for (const std::string& tenant : erased.tenants) {
    TM_RETURN_IF_ERROR(ForEachRow(
        db, "SELECT session, body FROM sessions WHERE tenant = ?1 ORDER BY session",
        [&](Statement& row) {
          v1::Session session;
          if (!codec.Unpack(row.Bytes(1), session).ok()) return Ok();
          const auto& shown = session.shown_cases();
          if (std::any_of(shown.begin(), shown.end(),
                          [&](uint64_t number) { return cases.contains(number); })) {
            erased.shown_to.push_back(row.Uint(0));
          }
          return Ok();
        },
        tenant));
  }
  return Ok();
}

Status FindCases(Database& db, uint64_t session, std::set<uint64_t>& cases) {
  return ForEachRow(
      db, "SELECT number FROM cases WHERE session = ?1 AND body IS NOT NULL",
      [&](Statement& row) {
        cases.insert(row.Uint(0));
        return Ok();
      },
      session);
}

// The remains of a session.
v1::Session NothingOf(uint64_t session) {
  v1::Session nothing;
  nothing.set_number(session);
  nothing.set_closed_ms(1);
  nothing.set_close_reason("deleted");
  return nothing;
}

Status EraseOne(Database& db, BodyCodec& codec, uint64_t session, Erased& erased) {
  TM_RETURN_IF_ERROR(FindUses(db, session, erased));
  for (size_t i = 0; i < std::size(kErasePlaces); ++i) {
    const ErasePlace& place = kErasePlaces[i];
    TM_RETURN_IF_ERROR(ForEachRow(
        db, place.bodies,
        [&](Statement& row) {
          ++erased.rows[i].second;
          erased.bodies.push_back(row.Text(0));
          if (i == 0) AddTexts(row.Bytes(0), codec, erased.texts);
          return Ok();
        },
        session));
    TM_ASSIGN_OR_RETURN(Statement remove, db.Prepare(place.remove));
    TM_RETURN_IF_ERROR(remove.With(session).Run());
  }
  // A trajectory's row stays, with counts alone: steps name it, and its number is never given
  // again.
  TM_ASSIGN_OR_RETURN(Statement trajectories,
                      db.Prepare("UPDATE trajectories SET fate = " + Quoted(Fate::kDeleted) +
                                 ", fate_reason = '', worker = '', scored = NULL, reward = NULL, "
                                 "solved = NULL, tests_passed = NULL, tests_total = NULL, "
                                 "compiled = NULL WHERE purpose = 3 AND grp = ?1"));
  TM_RETURN_IF_ERROR(trajectories.With(session).Run());
  TM_ASSIGN_OR_RETURN(const std::string body, codec.Pack(NothingOf(session)));
  TM_ASSIGN_OR_RETURN(Statement tombstone,
                      db.Prepare("UPDATE sessions SET tenant = '', name = '', agent = '', "
                                 "started_ms = 0, closed_ms = 1, body = ?2 WHERE session = ?1"));
  return tombstone.With(session, BlobRef{body}).Run();
}

// A write for a number that is not there yet comes too late.
Status TakeNumber(Database& db, BodyCodec& codec, uint64_t session, Erased& erased) {
  TM_ASSIGN_OR_RETURN(const std::string body, codec.Pack(NothingOf(session)));
  TM_ASSIGN_OR_RETURN(Statement take,
                      db.Prepare("INSERT OR IGNORE INTO sessions (session, tenant, name, agent, "
                                 "started_ms, closed_ms, body) VALUES (?1, '', '', '', 0, 1, ?2)"));
  TM_RETURN_IF_ERROR(take.With(session, BlobRef{body}).Run());
  if (db.Changes() != 0) erased.sessions.push_back(session);
  return Ok();
}

// Free pages and the log still hold what was deleted: both go. A reader can forbid that the log is
// cut. While SQLite itself waits for one nobody else can write, so it is asked again instead.
Status Scrub(Database& db, Duration patience) {
  TM_RETURN_IF_ERROR(db.Exec("VACUUM"));
  TM_RETURN_IF_ERROR(db.Exec("PRAGMA busy_timeout = 0"));
  for (Duration waited{0};; waited += kLogPause) {
    TM_ASSIGN_OR_RETURN(const int64_t busy, db.Integer("PRAGMA wal_checkpoint(TRUNCATE)"));
    if (busy == 0) return Ok();
    if (waited >= patience) break;
    std::this_thread::sleep_for(kLogPause);
  }
  return Unavailable(db.path() +
                     "-wal: another program reads the database, so its log could not be cut; close "
                     "it and delete again");
}

}  // namespace

Result<std::vector<uint64_t>> SessionsToErase(const std::string& db_path, const EraseWhat& what) {
  Database::Options options;
  options.mode = Database::Mode::kRead;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(db_path, options));
  Erased found;
  TM_RETURN_IF_ERROR(FindSessions(*db, what, found));
  return std::move(found.sessions);
}

Result<Erased> EraseSessions(const std::string& db_path, const EraseWhat& what, Duration patience) {
  Database::Options options;
  options.busy_timeout_ms = 30'000;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(db_path, options));
  TM_RETURN_IF_ERROR(CheckSchema(*db, RunDbMigrations(), kSessionsSchema));
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA secure_delete = ON"));
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA temp_store = MEMORY"));
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA synchronous = FULL"));
  Erased erased;
  for (const ErasePlace& place : kErasePlaces) erased.rows.emplace_back(place.name, 0);
  BodyCodec codec;
  TM_RETURN_IF_ERROR(db->Exec("BEGIN IMMEDIATE"));
  const auto all = [&]() -> Status {
    TM_RETURN_IF_ERROR(FindSessions(*db, what, erased));
    std::set<uint64_t> cases;
    for (const uint64_t session : erased.sessions) {
      TM_RETURN_IF_ERROR(FindCases(*db, session, cases));
      TM_RETURN_IF_ERROR(EraseOne(*db, codec, session, erased));
    }
    TM_RETURN_IF_ERROR(FindShown(*db, codec, cases, erased));
    for (const uint64_t session : what.under_way) {
      TM_RETURN_IF_ERROR(TakeNumber(*db, codec, session, erased));
    }
    TM_RETURN_IF_ERROR(FindCheckpoint(*db, erased));
    return db->Exec("COMMIT");
  };
  if (const Status status = all(); !status.ok()) {
    db->Rollback();
    return status;
  }
  TM_RETURN_IF_ERROR(Scrub(*db, patience));
  std::sort(erased.uses.begin(), erased.uses.end(),
            [](const Erased::Use& a, const Erased::Use& b) { return a.step < b.step; });
  const auto same = [](const Erased::Use& a, const Erased::Use& b) {
    return a.step == b.step && a.version == b.version;
  };
  erased.uses.erase(std::unique(erased.uses.begin(), erased.uses.end(), same), erased.uses.end());
  if (erased.sessions.empty()) {
    return NotFound(what.session ? "no session " + std::to_string(*what.session) + " is stored"
                                 : "no session of tenant \"" + what.tenant + "\" is stored");
  }
  return erased;
}

Status ForEachBodyLeft(const std::string& db_path,
                       const std::function<void(std::string_view body)>& take) {
  Database::Options options;
  options.mode = Database::Mode::kRead;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(db_path, options));
  for (const ErasePlace& place : kErasePlaces) {
    TM_RETURN_IF_ERROR(
        ForEachRow(*db, std::string("SELECT body FROM ") + place.table, [&](Statement& row) {
          take(row.Bytes(0));
          return Ok();
        }));
  }
  return Ok();
}

}  // namespace tidemill
