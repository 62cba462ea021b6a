// The gateway's sessions as a new process finds them.
#include "store/run_db.h"
#include "store/session_reader.h"
#include "store/sqlite.h"

namespace tidemill {

Result<SessionsState> RunDb::LoadSessions(int64_t closed_since_ms, size_t closed_max) {
  SessionsState state;
  TM_ASSIGN_OR_RETURN(const int64_t last,
                      db_->Integer("SELECT coalesce(max(session), 0) FROM sessions"));
  state.next_number = static_cast<uint64_t>(last) + 1;
  std::vector<uint64_t> numbers;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT session FROM sessions WHERE closed_ms = 0 UNION SELECT session FROM (SELECT session "
      "FROM sessions WHERE closed_ms > ?1 ORDER BY session DESC LIMIT ?2) ORDER BY 1",
      [&](Statement& row) {
        numbers.push_back(row.Uint(0));
        return Ok();
      },
      closed_since_ms, closed_max));
  for (const uint64_t number : numbers) {
    TM_ASSIGN_OR_RETURN(StoredSession session, ReadStoredSession(*db_, number));
    state.sessions.push_back(std::move(session));
  }
  return state;
}

}  // namespace tidemill
