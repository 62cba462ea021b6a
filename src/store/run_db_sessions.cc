// The gateway's sessions, and which version answers them, as a new process finds them.
#include <algorithm>
#include <cstdint>

#include "store/body_codec.h"
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

Result<LiveState> RunDb::LoadLive(size_t max) {
  LiveState state;
  BodyCodec codec;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT s.body, b.body, t.uses, t.fate FROM (SELECT * FROM trajectories WHERE purpose = 3 "
      "ORDER BY seq DESC LIMIT ?1) t JOIN bodies b USING (seq) JOIN sessions s ON s.session = "
      "t.grp ORDER BY t.seq",
      [&](Statement& row) -> Status {
        StoredLive live;
        // A row that cannot be read is as if it had not been recorded: the rest goes on.
        if (!codec.Unpack(row.Bytes(0), live.session).ok()) return Ok();
        if (!codec.Unpack(row.Bytes(1), live.trajectory).ok()) return Ok();
        live.usable = row.Int(2) == 0 && FateIsLive(row.Text(3));
        if (!live.usable) {
          live.trajectory.clear_prompt_ids();
          for (v1::Turn& turn : *live.trajectory.mutable_turns()) {
            const uint32_t number = turn.session_turn();
            turn.Clear();
            turn.set_session_turn(number);
          }
        }
        state.trajectories.push_back(std::move(live));
        return Ok();
      },
      max));
  uint64_t oldest = UINT64_MAX;  // sessions do not close in the order they began
  for (const StoredLive& live : state.trajectories) {
    oldest = std::min(oldest, live.session.number());
  }
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT body FROM signals WHERE session >= ?1 OR session IN (SELECT session FROM sessions "
      "WHERE closed_ms = 0) ORDER BY session, at_ms",
      [&](Statement& row) -> Status {
        v1::Signal signal;
        if (codec.Unpack(row.Bytes(0), signal).ok()) state.signals.push_back(std::move(signal));
        return Ok();
      },
      static_cast<int64_t>(std::min<uint64_t>(oldest, INT64_MAX))));
  return state;
}

Result<std::optional<v1::ReleaseState>> RunDb::LoadRelease() {
  std::optional<v1::ReleaseState> state;
  BodyCodec codec;
  // One that cannot be read is as if nothing had been released: the run begins anew.
  TM_RETURN_IF_ERROR(ForEachRow(*db_, "SELECT body FROM release", [&](Statement& row) -> Status {
    if (!codec.Unpack(row.Bytes(0), state.emplace()).ok()) state.reset();
    return Ok();
  }));
  return state;
}

}  // namespace tidemill
