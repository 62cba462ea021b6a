// How a run goes on after it stopped.
#include <string>

#include "store/body_codec.h"
#include "store/run_db.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

template <typename... Args>
Status Run(Database& db, const char* sql, const Args&... args) {
  return ForEachRow(
      db, sql, [](Statement&) { return Ok(); }, args...);
}

Status Abandon(Database& db, uint64_t step, int64_t now_ms) {
  TM_RETURN_IF_ERROR(
      Run(db, "INSERT INTO resumes (from_step, at_ms) VALUES (?1, ?2)", step, now_ms));
  const int64_t resume = db.LastRowId();
  // "ready" whatever the fate was: it followed from steps that no longer count.
  TM_RETURN_IF_ERROR(Run(db,
                         "UPDATE trajectories SET fate = 'ready', fate_reason = 'resumed', "
                         "uses = uses - (SELECT count(*) FROM uses u WHERE u.abandoned = 0 "
                         "AND u.step > ?1 AND u.seq = trajectories.seq) "
                         "WHERE seq IN (SELECT seq FROM uses WHERE abandoned = 0 AND step > ?1)",
                         step));
  for (const char* sql :
       {"UPDATE uses SET abandoned = ?2 WHERE abandoned = 0 AND step > ?1",
        "UPDATE steps SET abandoned = ?2 WHERE abandoned = 0 AND step > ?1",
        "UPDATE checkpoints SET abandoned = ?2 WHERE abandoned = 0 AND step > ?1"}) {
    TM_RETURN_IF_ERROR(Run(db, sql, step, resume));
  }
  return Ok();
}

Status LoadTrajectories(Database& db, uint32_t max_uses, ResumeState& state) {
  BodyCodec codec;
  return ForEachRow(
      db,
      "SELECT t.seq, t.uses, t.fate, b.body, v.body, coalesce(g.revision, 0) FROM trajectories t "
      "LEFT JOIN bodies b USING (seq) LEFT JOIN verdicts v USING (seq) "
      "LEFT JOIN groups g ON g.grp = t.grp "
      "WHERE t.purpose = 1 AND t.grp NOT IN (SELECT grp FROM groups WHERE dropped > 0) AND ("
      "t.grp IN (SELECT grp FROM groups WHERE accepted + dropped < members) OR "
      "t.grp IN (SELECT grp FROM trajectories WHERE purpose = 1 AND "
      "fate IN ('stored', 'ready', 'used') AND uses < ?1)) ORDER BY t.seq",
      [&](Statement& row) -> Status {
        ResumeState::Stored stored;
        stored.uses = static_cast<uint32_t>(row.Int(1));
        stored.fate = row.Text(2);
        stored.revision = static_cast<uint32_t>(row.Int(5));
        const std::string where = db.path() + ": trajectory " + std::to_string(row.Int(0));
        TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(3), stored.trajectory).WithContext(where));
        if (!row.IsNull(4)) {
          stored.verdict.emplace();
          TM_RETURN_IF_ERROR(
              codec.Unpack(row.Bytes(4), *stored.verdict).WithContext(where + ", its verdict"));
        }
        state.trajectories.push_back(std::move(stored));
        return Ok();
      },
      max_uses);
}

Status LoadOutstanding(Database& db, ResumeState& state) {
  BodyCodec codec;
  TM_ASSIGN_OR_RETURN(Statement members,
                      db.Prepare("SELECT member FROM trajectories WHERE grp = ?1 ORDER BY member"));
  return ForEachRow(
      db,
      "SELECT grp, lease, report FROM groups "
      "WHERE accepted + dropped < members ORDER BY grp",
      [&](Statement& row) -> Status {
        ResumeState::Outstanding outstanding;
        const std::string where = db.path() + ": group " + std::to_string(row.Int(0));
        TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(1), outstanding.group).WithContext(where));
        outstanding.report.set_group(row.Uint(0));
        if (!row.IsNull(2)) {
          TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(2), outstanding.report).WithContext(where));
        }
        members.With(row.Int(0));
        while (true) {
          TM_ASSIGN_OR_RETURN(const bool more, members.Next());
          if (!more) break;
          outstanding.stored_members.push_back(static_cast<uint32_t>(members.Int(0)));
        }
        state.outstanding.push_back(std::move(outstanding));
        return Ok();
      });
}

Status LoadReissues(Database& db, ResumeState& state) {
  BodyCodec codec;
  return ForEachRow(
      db,
      "SELECT grp, lease FROM groups g WHERE reissue = 1 AND accepted + dropped >= members "
      "AND NOT EXISTS (SELECT 1 FROM groups later WHERE later.task = g.task AND "
      "later.purpose = g.purpose AND later.eval_name = g.eval_name AND later.grp > g.grp) "
      "ORDER BY grp",
      [&](Statement& row) -> Status {
        v1::GroupLease group;
        TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(1), group)
                               .WithContext(db.path() + ": group " + std::to_string(row.Int(0))));
        state.to_reissue.push_back(std::move(group));
        return Ok();
      });
}

Status LoadCounters(Database& db, ResumeState& state) {
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      "SELECT max(coalesce((SELECT max(grp) FROM groups), 0), "
      "coalesce((SELECT max(grp) FROM trajectories), 0)) + 1, "
      "coalesce((SELECT max(version) FROM versions), 0) + 1, "
      "coalesce((SELECT cursor FROM groups WHERE cursor <> '' ORDER BY grp DESC LIMIT 1), '')",
      [&](Statement& row) {
        state.next_group = row.Uint(0);
        state.next_version = row.Uint(1);
        state.cursor = row.Text(2);
        return Ok();
      }));
  TM_RETURN_IF_ERROR(ForEachRow(
      db, "SELECT step, version FROM steps WHERE abandoned = 0 ORDER BY step DESC LIMIT 1",
      [&](Statement& row) {
        state.last_step = row.Uint(0);
        state.last_version = row.Uint(1);
        return Ok();
      }));
  TM_RETURN_IF_ERROR(
      ForEachRow(db, "SELECT total(accepted), total(dropped) FROM groups WHERE purpose = 1",
                 [&](Statement& row) {
                   state.accepted = static_cast<uint64_t>(row.Double(0));
                   state.dropped = static_cast<uint64_t>(row.Double(1));
                   return Ok();
                 }));
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      "SELECT step, version, path, at_ms FROM checkpoints WHERE abandoned = 0 "
      "ORDER BY step DESC LIMIT 1",
      [&](Statement& row) {
        state.checkpoint = CheckpointRecord{row.Uint(0), row.Uint(1), row.Text(2), row.Int(3)};
        return Ok();
      }));
  return ForEachRow(db, "SELECT version, step FROM versions ORDER BY version", [&](Statement& row) {
    state.versions.emplace_back(row.Uint(0), row.Uint(1));
    return Ok();
  });
}

}  // namespace

Status RunDb::ResumeFrom(uint64_t step) {
  TM_ASSIGN_OR_RETURN(const int64_t last,
                      db_->Integer("SELECT coalesce(max(step), 0) FROM steps WHERE abandoned = 0"));
  if (step > static_cast<uint64_t>(last)) {
    return Invalid(path() + ": cannot resume from step " + std::to_string(step) +
                   ", the last step on record is " + std::to_string(last));
  }
  TM_RETURN_IF_ERROR(db_->Exec("BEGIN IMMEDIATE"));
  Status status = Abandon(*db_, step, clock_.WallMs());
  if (status.ok()) status = db_->Exec("COMMIT");
  if (!status.ok()) db_->Rollback();
  return status;
}

Result<ResumeState> RunDb::LoadForResume(uint32_t max_uses) {
  ResumeState state;
  TM_RETURN_IF_ERROR(LoadTrajectories(*db_, max_uses, state));
  TM_RETURN_IF_ERROR(LoadOutstanding(*db_, state));
  TM_RETURN_IF_ERROR(LoadReissues(*db_, state));
  TM_RETURN_IF_ERROR(LoadCounters(*db_, state));
  return state;
}

}  // namespace tidemill
