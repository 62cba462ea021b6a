#include "store/run_queries.h"

#include <algorithm>
#include <tuple>

#include "core/fate.h"
#include "store/body_codec.h"

namespace tidemill {
namespace {

constexpr int64_t kDefaultWindowMs = 60'000;
constexpr int64_t kUnfinishedMs = 30'000;  // how long after the window its episodes may end
constexpr uint64_t kStepsMax = 2000;

// The first and last finished_ms over the purposes of training and evaluation.
Status ReadExtent(Database& db, int64_t& first, int64_t& last) {
  first = 0;
  last = 0;
  return ForEachRow(
      db,
      "SELECT min(f), max(l) FROM (SELECT min(finished_ms) f, max(finished_ms) l FROM trajectories "
      "WHERE purpose = 1 UNION ALL SELECT min(finished_ms), max(finished_ms) FROM trajectories "
      "WHERE "
      "purpose = 2)",
      [&](Statement& row) {
        first = row.Int(0);
        last = row.Int(1);
        return Ok();
      });
}

Status ReadSteps(Database& db, Timeline& timeline) {
  return ForEachRow(
      db,
      "SELECT step, version, at_ms, metrics_json FROM steps WHERE abandoned = 0 AND at_ms >= ?1 "
      "AND "
      "at_ms <= ?2 ORDER BY step LIMIT ?3",
      [&](Statement& row) {
        timeline.steps.push_back({row.Uint(0), row.Uint(1), row.Int(2), row.Text(3)});
        return Ok();
      },
      timeline.from_ms, timeline.to_ms + kDefaultWindowMs, kStepsMax);
}

EpisodeSpan SpanOf(Statement& row, BodyCodec& codec) {
  EpisodeSpan span;
  span.task = row.Text(0);
  span.group = row.Uint(1);
  span.member = static_cast<uint32_t>(row.Int(2));
  span.purpose = static_cast<v1::Purpose>(row.Int(3));
  span.worker = row.Text(4);
  span.started_ms = row.Int(5);
  span.finished_ms = row.Int(6);
  span.scored_ms = row.Int(7);
  span.solved = row.Int(8) != 0;
  v1::Trajectory trajectory;
  // A damaged body costs its turns, not the picture.
  if (!codec.Unpack(row.Bytes(9), trajectory).ok()) return span;
  for (const v1::Turn& turn : trajectory.turns()) {
    span.turns.push_back(
        {turn.started_ms(), turn.finished_ms(), turn.calls_size() > 0 ? turn.observed_ms() : 0});
  }
  return span;
}

// Newest first, so that a window with too much in it loses its begin.
Status ReadSpans(Database& db, int purpose, uint64_t limit, Timeline& timeline) {
  BodyCodec codec;
  uint64_t rows = 0;
  int64_t oldest = timeline.to_ms;
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      "SELECT t.task, t.grp, t.member, t.purpose, t.worker, t.started_ms, t.finished_ms, v.at_ms, "
      "t.solved, b.body FROM trajectories t INDEXED BY trajectories_by_time "
      "JOIN bodies b ON b.seq = t.seq LEFT JOIN verdicts v ON v.seq = t.seq "
      "WHERE t.purpose = ?1 AND t.finished_ms >= ?2 AND t.finished_ms <= ?3 + ?5 AND "
      "t.started_ms <= ?3 "
      "ORDER BY t.finished_ms DESC LIMIT ?4",
      [&](Statement& row) {
        ++rows;
        oldest = row.Int(6);
        timeline.episodes.push_back(SpanOf(row, codec));
        return Ok();
      },
      purpose, timeline.from_ms, timeline.to_ms, limit, kUnfinishedMs));
  if (rows == limit && oldest > timeline.from_ms) {
    timeline.cut = true;
    timeline.from_ms = oldest;
  }
  return Ok();
}

}  // namespace

Result<TaskTrends> ReadTaskTrends(Database& db, v1::Purpose purpose, uint32_t intervals) {
  TaskTrends trends;
  const auto kind = static_cast<int>(purpose);
  TM_RETURN_IF_ERROR(ForEachRow(
      db, "SELECT min(finished_ms), max(finished_ms) FROM trajectories WHERE purpose = ?1",
      [&](Statement& row) {
        trends.first_ms = row.Int(0);
        trends.last_ms = row.Int(1);
        return Ok();
      },
      kind));
  const int64_t width = (trends.last_ms - trends.first_ms) / intervals + 1;
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      "SELECT task, finished_ms, solved, reward FROM trajectories INDEXED BY trajectories_by_task "
      "WHERE purpose = ?1 AND scored = 1 ORDER BY task",
      [&](Statement& row) {
        const std::string_view task = row.Bytes(0);
        if (trends.tasks.empty() || trends.tasks.back().task != task) {
          TaskTrend& trend = trends.tasks.emplace_back();
          trend.task = task;
          trend.scored_by_interval.assign(intervals, 0);
          trend.solved_by_interval.assign(intervals, 0);
        }
        TaskTrend& trend = trends.tasks.back();
        const int64_t at = std::clamp(row.Int(1), trends.first_ms, trends.last_ms);
        const auto interval = static_cast<size_t>((at - trends.first_ms) / width);
        const bool solved = row.Int(2) != 0;
        ++trend.scored;
        ++trend.scored_by_interval[interval];
        trend.solved += solved ? 1 : 0;
        trend.solved_by_interval[interval] += solved ? 1 : 0;
        trend.reward_sum += row.Double(3);
        trend.last_ms = std::max(trend.last_ms, row.Int(1));
        return Ok();
      },
      kind));
  return trends;
}

Result<Timeline> ReadTimeline(Database& db, const TimelineWindow& window) {
  Timeline timeline;
  TM_RETURN_IF_ERROR(ReadExtent(db, timeline.first_ms, timeline.last_ms));
  timeline.to_ms = window.to_ms > 0 ? window.to_ms : timeline.last_ms;
  timeline.from_ms = window.from_ms > 0 ? window.from_ms : timeline.to_ms - kDefaultWindowMs;
  if (timeline.from_ms > timeline.to_ms) return Invalid("\"from\" is later than \"to\"");
  for (const v1::Purpose purpose : {v1::PURPOSE_TRAIN, v1::PURPOSE_EVAL}) {
    TM_RETURN_IF_ERROR(ReadSpans(db, purpose, window.episodes_max, timeline));
  }
  std::erase_if(timeline.episodes,
                [&](const EpisodeSpan& e) { return e.finished_ms < timeline.from_ms; });
  std::sort(timeline.episodes.begin(), timeline.episodes.end(),
            [](const EpisodeSpan& a, const EpisodeSpan& b) {
              return std::tie(a.started_ms, a.group, a.member) <
                     std::tie(b.started_ms, b.group, b.member);
            });
  TM_RETURN_IF_ERROR(ReadSteps(db, timeline));
  TM_RETURN_IF_ERROR(
      ForEachRow(db, "SELECT at_ms FROM steps WHERE abandoned = 0 ORDER BY step DESC LIMIT 1",
                 [&](Statement& row) {
                   timeline.last_step_ms = row.Int(0);
                   return Ok();
                 }));
  return timeline;
}

Result<std::vector<FateCount>> ReadFates(Database& db, uint64_t limit) {
  std::vector<FateCount> fates;
  TM_RETURN_IF_ERROR(ForEachRow(
      db,
      "SELECT fate, fate_reason, count(*) n FROM trajectories WHERE fate NOT IN (" +
          LiveFatesSql() + ") GROUP BY fate, fate_reason ORDER BY n DESC LIMIT ?1",
      [&](Statement& row) {
        fates.push_back({row.Text(0), row.Text(1), row.Uint(2)});
        return Ok();
      },
      limit));
  return fates;
}

Result<int64_t> ChangeMark(Database& db) {
  return db.Integer("PRAGMA data_version");
}

}  // namespace tidemill
