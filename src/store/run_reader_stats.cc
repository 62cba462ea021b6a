// The sums of RunReader.
#include <algorithm>

#include "core/fate.h"
#include "store/run_reader.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

Status CheckLimit(uint64_t limit) {
  if (limit <= kPageRowsMax) return Ok();
  return Invalid("at most " + std::to_string(kPageRowsMax) + " rows at once, not " +
                 std::to_string(limit));
}

}  // namespace

Result<std::vector<TaskStats>> RunReader::Tasks(v1::Purpose purpose) {
  MutexLock lock(mutex_);
  std::vector<TaskStats> tasks;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT task, count(*), coalesce(sum(scored), 0), coalesce(sum(solved), 0), "
      "coalesce(avg(reward), 0) FROM trajectories INDEXED BY trajectories_by_task "
      "WHERE ?1 = 0 OR purpose = ?1 GROUP BY task ORDER BY task",
      [&](Statement& row) {
        tasks.push_back({row.Text(0), row.Uint(1), row.Uint(2), row.Uint(3), row.Double(4)});
        return Ok();
      },
      static_cast<int>(purpose)));
  return tasks;
}

Result<std::vector<PassRatePoint>> RunReader::PassRateOverTime(const std::string& task,
                                                               v1::Purpose purpose,
                                                               uint32_t points) {
  if (points < 1 || points > 1000) {
    return Invalid("points must be 1 to 1000, got " + std::to_string(points));
  }
  // The index gives them in order of time, so the first and the last row say where the intervals
  // lie.
  const std::string from = task.empty() ? " FROM trajectories INDEXED BY trajectories_by_time "
                                          "WHERE purpose = ?1 AND reward IS NOT NULL AND ?2 = ''"
                                        : " FROM trajectories INDEXED BY trajectories_by_task "
                                          "WHERE purpose = ?1 AND reward IS NOT NULL AND task = ?2";
  const auto kind = static_cast<int>(purpose);
  MutexLock lock(mutex_);
  int64_t first = 0, last = -1;
  for (const auto& [time, order] : {std::pair{&first, ""}, std::pair{&last, " DESC"}}) {
    TM_RETURN_IF_ERROR(ForEachRow(
        *db_, "SELECT finished_ms" + from + " ORDER BY finished_ms" + order + " LIMIT 1",
        [time = time](Statement& row) {
          *time = row.Int(0);
          return Ok();
        },
        kind, task));
  }
  std::vector<PassRatePoint> result;
  if (last < first) return result;
  const int64_t width = (last - first) / points + 1;
  for (uint32_t i = 0; i < points; ++i) result.push_back({first + width * i, 0, 0, 0});
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_, "SELECT finished_ms, solved, reward" + from,
      [&](Statement& row) {
        const int64_t at = row.Int(0);
        if (at < first || at > last) return Ok();  // stored since
        PassRatePoint& point = result[static_cast<size_t>((at - first) / width)];
        ++point.episodes;
        point.solved += row.Int(1) != 0;
        point.mean_reward += row.Double(2);  // the sum, until all are in
        return Ok();
      },
      kind, task));
  for (PassRatePoint& point : result) {
    if (point.episodes > 0) point.mean_reward /= static_cast<double>(point.episodes);
  }
  return result;
}

Result<std::vector<StepRow>> RunReader::Steps(uint64_t after, uint64_t limit) {
  TM_RETURN_IF_ERROR(CheckLimit(limit));
  MutexLock lock(mutex_);
  std::vector<StepRow> steps;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_,
      "SELECT step, version, at_ms, metrics_json, (SELECT count(*) FROM uses u WHERE "
      "u.abandoned = 0 AND u.step = s.step) FROM steps s WHERE abandoned = 0 AND step > ?1 "
      "ORDER BY step LIMIT ?2",
      [&](Statement& row) {
        steps.push_back({row.Uint(0), row.Uint(1), row.Int(2), row.Uint(4), row.Text(3)});
        return Ok();
      },
      std::min<uint64_t>(after, INT64_MAX), limit));
  return steps;
}

Result<RunCounts> RunReader::Counts() {
  MutexLock lock(mutex_);
  RunCounts counts;
  TM_RETURN_IF_ERROR(
      ForEachRow(*db_, "SELECT fate, purpose, count(*) FROM trajectories GROUP BY fate, purpose",
                 [&](Statement& row) {
                   const uint64_t n = row.Uint(2);
                   counts.episodes += n;
                   if (row.Int(1) == v1::PURPOSE_TRAIN) {
                     counts.train += n;
                     counts.train_by_fate[row.Text(0)] += n;
                   } else {
                     counts.eval += n;
                   }
                   return Ok();
                 }));
  const std::string causes =
      "(SELECT stale_cause AS cause FROM trajectories WHERE stale_cause <> '' UNION ALL "
      "SELECT fate_reason FROM trajectories WHERE fate = " +
      Quoted(Fate::kStale) + " AND stale_cause = '' AND fate_reason <> '')";
  TM_RETURN_IF_ERROR(ForEachRow(*db_,
                                "SELECT cause, count(*) AS n FROM " + causes +
                                    " GROUP BY cause ORDER BY n DESC, cause LIMIT 100",
                                [&](Statement& row) {
                                  counts.stale_by_cause[row.Text(0)] = row.Uint(1);
                                  return Ok();
                                }));
  // The words of a kind have no ": " in them, which stands in front of the detail.
  TM_RETURN_IF_ERROR(ForEachRow(*db_,
                                "SELECT substr(cause, 1, instr(cause || ': ', ': ') - 1) AS kind, "
                                "count(*) FROM " +
                                    causes + " GROUP BY kind",
                                [&](Statement& row) {
                                  counts.stale_by_kind[row.Text(0)] = row.Uint(1);
                                  return Ok();
                                }));
  TM_RETURN_IF_ERROR(ForEachRow(*db_,
                                "SELECT (SELECT count(*) FROM trajectories WHERE reward IS NULL), "
                                "(SELECT count(*) FROM groups), "
                                "(SELECT count(*) FROM groups WHERE accepted + dropped < members), "
                                "(SELECT count(*) FROM steps WHERE abandoned = 0), "
                                "(SELECT count(*) FROM steps WHERE abandoned > 0), "
                                "(SELECT count(*) FROM resumes), "
                                "(SELECT coalesce(max(version), 0) FROM versions)",
                                [&](Statement& row) {
                                  counts.unscored = row.Uint(0);
                                  counts.groups = row.Uint(1);
                                  counts.groups_outstanding = row.Uint(2);
                                  counts.steps = row.Uint(3);
                                  counts.steps_abandoned = row.Uint(4);
                                  counts.resumes = row.Uint(5);
                                  counts.last_version = row.Uint(6);
                                  return Ok();
                                }));
  return counts;
}

Result<std::vector<CheckpointRecord>> RunReader::Checkpoints() {
  MutexLock lock(mutex_);
  std::vector<CheckpointRecord> checkpoints;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_, "SELECT step, version, path, at_ms FROM checkpoints WHERE abandoned = 0 ORDER BY step",
      [&](Statement& row) {
        checkpoints.push_back({row.Uint(0), row.Uint(1), row.Text(2), row.Int(3)});
        return Ok();
      }));
  return checkpoints;
}

Result<std::vector<OwnedStep>> RunReader::OwnedSteps() {
  MutexLock lock(mutex_);
  std::vector<OwnedStep> steps;
  TM_RETURN_IF_ERROR(
      ForEachRow(*db_,
                 "SELECT step, policy, coalesce(policy_step, step) FROM steps WHERE abandoned = 0 "
                 "ORDER BY step",
                 [&](Statement& row) {
                   steps.push_back({row.Uint(0), row.Text(1), row.Uint(2)});
                   return Ok();
                 }));
  return steps;
}

}  // namespace tidemill
