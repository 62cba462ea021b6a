// How a run goes on after it stopped.
#include <string>

#include "core/fate.h"
#include "store/body_codec.h"
#include "store/run_db.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

template <typename... Args>
Status Run(Database& db, std::string_view sql, const Args&... args) {
  return ForEachRow(
      db, sql, [](Statement&) { return Ok(); }, args...);
}

Status Abandon(Database& db, uint64_t step, int64_t now_ms) {
  TM_RETURN_IF_ERROR(
      Run(db, "INSERT INTO resumes (from_step, at_ms) VALUES (?1, ?2)", step, now_ms));
  const int64_t resume = db.LastRowId();
  // Ready whatever the fate was: it followed from steps that no longer count. What was deleted
  // stays so.
  TM_RETURN_IF_ERROR(
      Run(db,
          "UPDATE trajectories SET fate = CASE WHEN fate = " + Quoted(Fate::kDeleted) +
              " THEN fate ELSE " + Quoted(Fate::kReady) +
              " END, fate_reason = 'resumed', "
              "uses = uses - (SELECT count(*) FROM uses u WHERE u.abandoned = 0 "
              "AND u.step > ?1 AND u.seq = trajectories.seq) "
              "WHERE seq IN (SELECT seq FROM uses WHERE abandoned = 0 AND step > ?1)",
          step));
  for (const char* sql :
       {"UPDATE uses SET abandoned = ?2 WHERE abandoned = 0 AND step > ?1",
        "UPDATE steps SET abandoned = ?2 WHERE abandoned = 0 AND step > ?1",
        "UPDATE checkpoints SET abandoned = ?2 WHERE abandoned = 0 AND step > ?1",
        "UPDATE evaluations SET abandoned = ?2 WHERE abandoned = 0 AND step > ?1"}) {
    TM_RETURN_IF_ERROR(Run(db, sql, step, resume));
  }
  return Ok();
}

// Takes what the row holds. A body that cannot be read, or that says something else than the
// columns and the ledger, is unusable, which is no reason for the run not to go on.
void TakeRow(Statement& row, BodyCodec& codec, ResumeState::Stored& stored) {
  v1::Trajectory known;
  v1::TrajectoryId& id = *known.mutable_id();
  id.set_task(row.Text(6));
  id.set_group(row.Uint(7));
  id.set_member(static_cast<uint32_t>(row.Int(8)));
  id.set_attempt(static_cast<uint32_t>(row.Int(9)));
  known.set_purpose(v1::PURPOSE_TRAIN);
  stored.issued = !row.IsNull(10);
  if (stored.issued) known.set_group_members(static_cast<uint32_t>(row.Int(10)));
  v1::Trajectory& trajectory = stored.trajectory;
  const Status read = codec.Unpack(row.Bytes(3), trajectory);
  if (!stored.issued || row.Text(11) != id.task()) {
    stored.issued = false;
    stored.unusable = "no such group was issued";
  } else if (!read.ok()) {
    stored.unusable = read.message();
  } else if (trajectory.id().SerializeAsString() != id.SerializeAsString() ||
             trajectory.group_members() != known.group_members() ||
             trajectory.purpose() != known.purpose()) {
    stored.unusable = "its body is of another trajectory or group";
  }
  trajectory.clear_log();  // as replay, which has this from here on
  if (!stored.unusable.empty()) trajectory = std::move(known);
  // A verdict that cannot be read is asked for again.
  if (row.IsNull(4)) return;
  if (!codec.Unpack(row.Bytes(4), stored.verdict.emplace()).ok()) stored.verdict.reset();
}

Status LoadUses(Database& db, int64_t seq, std::map<std::string, uint32_t>& uses_of) {
  return ForEachRow(
      db,
      "SELECT s.policy, count(*) FROM uses u JOIN steps s ON s.abandoned = 0 AND s.step = u.step "
      "WHERE u.abandoned = 0 AND u.seq = ?1 GROUP BY s.policy",
      [&](Statement& row) {
        uses_of[row.Text(0)] = static_cast<uint32_t>(row.Int(1));
        return Ok();
      },
      seq);
}

Status LoadTrajectories(Database& db, uint32_t max_uses, ResumeState& state) {
  BodyCodec codec;
  return ForEachRow(
      db,
      "SELECT t.seq, t.uses, t.fate, b.body, v.body, coalesce(g.revision, 0), "
      "t.task, t.grp, t.member, t.attempt, g.members, g.task, g.report FROM trajectories t "
      "LEFT JOIN bodies b USING (seq) LEFT JOIN verdicts v USING (seq) "
      "LEFT JOIN groups g ON g.grp = t.grp "
      "WHERE t.purpose = 1 AND t.grp NOT IN (SELECT grp FROM groups WHERE dropped > 0) AND ("
      "t.grp IN (SELECT grp FROM groups WHERE accepted + dropped < members) OR "
      "t.grp IN (SELECT grp FROM trajectories WHERE purpose = 1 AND "
      "fate IN (" +
          LiveFatesSql() + ") AND uses < ?1)) ORDER BY t.seq",
      [&](Statement& row) -> Status {
        ResumeState::Stored stored;
        stored.uses = static_cast<uint32_t>(row.Int(1));
        stored.fate = row.Text(2);
        stored.revision = static_cast<uint32_t>(row.Int(5));
        TakeRow(row, codec, stored);
        if (stored.uses > 0) TM_RETURN_IF_ERROR(LoadUses(db, row.Int(0), stored.uses_of));
        // One that cannot be read says nothing of parts: they are accepted, as the columns say.
        if (!row.IsNull(12) && !codec.Unpack(row.Bytes(12), stored.report).ok()) {
          stored.report.Clear();
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

Status LoadScorerVersions(Database& db, ResumeState& state) {
  BodyCodec codec;
  return ForEachRow(db, "SELECT body FROM verdicts ORDER BY seq DESC LIMIT 256",
                    [&](Statement& row) -> Status {
                      v1::Verdict verdict;
                      if (!codec.Unpack(row.Bytes(0), verdict).ok()) return Ok();
                      for (const v1::RewardPart& part : verdict.parts()) {
                        uint32_t& version = state.scorer_versions[part.scorer()];
                        version = std::max(version, part.scorer_version());
                      }
                      return Ok();
                    });
}

Status LoadPolicies(Database& db, ResumeState& state) {
  TM_RETURN_IF_ERROR(
      ForEachRow(db,
                 "SELECT policy, max(coalesce(policy_step, step)) FROM steps WHERE abandoned = 0 "
                 "GROUP BY policy",
                 [&](Statement& row) {
                   state.policy_steps[row.Text(0)] = row.Uint(1);
                   return Ok();
                 }));
  return ForEachRow(
      db, "SELECT version, policy, coalesce(policy_step, step) FROM versions ORDER BY version",
      [&](Statement& row) {
        state.versions.push_back({row.Uint(0), row.Text(1), row.Uint(2)});
        return Ok();
      });
}

Status LoadCounters(Database& db, ResumeState& state) {
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      // Past trajectories of groups that were never issued, but not to the end of all numbers.
      "WITH last AS (SELECT coalesce(max(grp), 0) AS grp FROM groups) "
      "SELECT max((SELECT grp FROM last), coalesce((SELECT max(grp) FROM trajectories "
      "WHERE grp < (SELECT grp FROM last) + 1000000), 0)) + 1, "
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
  return LoadPolicies(db, state);
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
  TM_RETURN_IF_ERROR(LoadScorerVersions(*db_, state));
  TM_RETURN_IF_ERROR(LoadCounters(*db_, state));
  return state;
}

}  // namespace tidemill
