#include "store/run_reader.h"

#include <unistd.h>

#include <algorithm>

#include "core/fate.h"
#include "store/body_codec.h"
#include "store/eval_choice.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace tidemill {
namespace {

// SQLite's name for a file that nobody can change, with what a URI would misread written in hex.
std::string ImmutableUri(const std::string& path) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string uri = "file:";
  for (const unsigned char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      uri += {'%', kHex[c >> 4], kHex[c & 15]};
    } else {
      uri += static_cast<char>(c);
    }
  }
  return uri + "?immutable=1";
}

Result<std::unique_ptr<Database>> OpenChecked(const std::string& path,
                                              const Database::Options& options) {
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(path, options));
  TM_RETURN_IF_ERROR(CheckSchema(*db, RunDbMigrations(), kEpisodesSchema));
  return db;
}

// Conditions of a filter as SQL, and their arguments in the same order.
class Where {
 public:
  explicit Where(const EpisodeFilter& f) : filter_(f) {
    if (f.task) Condition("task = ?");
    if (f.group) Condition("grp = ?");
    if (f.purpose) Condition("purpose = ?");
    if (f.eval_name) {
      const std::string counts = "grp IN (SELECT grp FROM evaluation_groups WHERE evaluation = " +
                                 EvaluationThatCounts("?") + ")";
      Condition(counts.c_str());
    }
    if (f.end) Condition("end = ?");
    if (f.fate) Condition("fate = ?");
    if (f.scored) Condition("coalesce(scored, 0) = ?");
    if (f.solved) Condition("solved = ?");
    if (f.reward_min) Condition("reward >= ?");
    if (f.reward_max) Condition("reward <= ?");
    if (f.version) Condition("min_version <= ? AND max_version >= ?");
    if (f.after_seq) Condition("seq > ?");
    if (f.before_seq) Condition("seq < ?");
    // Weights that no step made (version 0, or a model read from disk) are as old as the run.
    if (f.lag_min) {
      Condition(
          "uses > 0 AND (SELECT max(u.step) - 1 FROM uses u WHERE u.seq = trajectories.seq AND "
          "u.abandoned = 0) - coalesce((SELECT step FROM versions WHERE version = min_version), 0) "
          ">= ?");
    }
  }
  const std::string& sql() const { return sql_; }

  void Bind(Statement& s) const {
    const EpisodeFilter& f = filter_;
    s.Reset();
    if (f.task) s.Add(*f.task);
    if (f.group) s.Add(*f.group);
    if (f.purpose) s.Add(static_cast<int>(*f.purpose));
    if (f.eval_name) s.Add(*f.eval_name);
    if (f.end) s.Add(static_cast<int>(*f.end));
    if (f.fate) s.Add(FateName(*f.fate));
    if (f.scored) s.Add(*f.scored);
    if (f.solved) s.Add(*f.solved);
    if (f.reward_min) s.Add(*f.reward_min);
    if (f.reward_max) s.Add(*f.reward_max);
    if (f.version) s.Add(*f.version), s.Add(*f.version);
    if (f.after_seq) s.Add(*f.after_seq);
    if (f.before_seq) s.Add(*f.before_seq);
    if (f.lag_min) s.Add(*f.lag_min);
  }

 private:
  void Condition(const char* condition) {
    sql_ += sql_.empty() ? " WHERE " : " AND ";
    sql_ += condition;
  }

  const EpisodeFilter& filter_;
  std::string sql_;
};

const char* OrderOf(EpisodeSort sort) {
  switch (sort) {
    case EpisodeSort::kNewest:
      return "seq DESC";
    case EpisodeSort::kOldest:
      return "seq";
    case EpisodeSort::kWorst:
      return "reward ASC NULLS LAST, seq DESC";
    case EpisodeSort::kBest:
      return "reward DESC, seq DESC";  // NULL is the smallest
    case EpisodeSort::kMostTokens:
      return "tokens DESC, seq DESC";
    case EpisodeSort::kMostTurns:
      return "turns DESC, seq DESC";
    case EpisodeSort::kSlowest:
      return "finished_ms - started_ms DESC, seq DESC";
  }
  return "seq DESC";
}

std::optional<uint64_t> OptionalUint(const Statement& row, int column) {
  if (row.IsNull(column)) return std::nullopt;
  return row.Uint(column);
}

std::optional<bool> OptionalBool(const Statement& row, int column) {
  if (row.IsNull(column)) return std::nullopt;
  return row.Int(column) != 0;
}

constexpr const char* kEpisodeColumns =
    "seq, task, grp, member, attempt, purpose, eval_name, end, stale_cause, worker, started_ms, "
    "finished_ms, prompt_tokens, tokens, turns, tool_calls, min_version, max_version, fate, "
    "fate_reason, uses, scored, reward, solved, tests_passed, tests_total, compiled, "
    "(SELECT e.step FROM evaluation_groups eg JOIN evaluations e USING (evaluation) "
    "WHERE eg.grp = trajectories.grp)";

EpisodeRow ReadEpisodeRow(const Statement& row) {
  EpisodeRow e;
  e.seq = row.Uint(0);
  e.task = row.Text(1);
  e.group = row.Uint(2);
  e.member = static_cast<uint32_t>(row.Int(3));
  e.attempt = static_cast<uint32_t>(row.Int(4));
  e.purpose = static_cast<v1::Purpose>(row.Int(5));
  e.eval_name = row.Text(6);
  e.end = static_cast<v1::EpisodeEnd>(row.Int(7));
  e.stale_cause = row.Text(8);
  e.worker = row.Text(9);
  e.started_ms = row.Int(10);
  e.finished_ms = row.Int(11);
  e.prompt_tokens = row.Uint(12);
  e.tokens = row.Uint(13);
  e.turns = static_cast<uint32_t>(row.Int(14));
  e.tool_calls = static_cast<uint32_t>(row.Int(15));
  e.min_version = OptionalUint(row, 16);
  e.max_version = OptionalUint(row, 17);
  e.fate = row.Text(18);
  e.fate_reason = row.Text(19);
  e.uses = static_cast<uint32_t>(row.Int(20));
  e.scored = OptionalBool(row, 21);
  if (!row.IsNull(22)) e.reward = row.Double(22);
  e.solved = OptionalBool(row, 23);
  e.tests_passed = static_cast<uint32_t>(row.Int(24));
  e.tests_total = static_cast<uint32_t>(row.Int(25));
  e.compiled = row.Int(26) != 0;
  e.eval_step = OptionalUint(row, 27);
  return e;
}

}  // namespace

RunReader::RunReader(std::unique_ptr<Database> db) : db_(std::move(db)) {}
RunReader::~RunReader() = default;

Result<std::unique_ptr<Database>> OpenRunDbToRead(const std::string& db_path) {
  if (access(db_path.c_str(), F_OK) != 0) return NotFound(db_path + ": no such database");
  Database::Options options;
  options.mode = Database::Mode::kRead;
  auto db = OpenChecked(db_path, options);
  // Reading beside a writer takes a file of shared memory. Where none can be made (a read-only
  // disk) and no log is left behind, the file cannot change, and is read as such.
  if (!db.ok() && db.status().code() == Code::kUnavailable &&
      access((db_path + "-wal").c_str(), F_OK) != 0) {
    db = OpenChecked(ImmutableUri(db_path), options);
  }
  if (!db.ok()) return db.status();
  TM_RETURN_IF_ERROR((*db)->Exec("PRAGMA cache_size = -65536"));
  return std::move(*db);
}

Result<std::unique_ptr<RunReader>> RunReader::Open(const std::string& db_path) {
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, OpenRunDbToRead(db_path));
  TM_RETURN_IF_ERROR(ReadOlderEvaluations(*db));
  return std::unique_ptr<RunReader>(new RunReader(std::move(db)));
}

Result<EpisodePage> RunReader::Episodes(const EpisodeFilter& filter, EpisodeSort sort,
                                        const Page& page) {
  if (page.limit > kPageRowsMax) {
    return Invalid("a page has at most " + std::to_string(kPageRowsMax) + " episodes, not " +
                   std::to_string(page.limit));
  }
  const Where where(filter);
  // Which rows, from the narrowest index there is; only then their columns.
  const std::string order = std::string(" ORDER BY ") + OrderOf(sort);
  const std::string list = std::string("SELECT ") + kEpisodeColumns +
                           " FROM (SELECT seq AS chosen FROM trajectories" + where.sql() + order +
                           " LIMIT ? OFFSET ?) CROSS JOIN trajectories ON seq = chosen" + order;
  MutexLock lock(mutex_);
  EpisodePage result;
  TM_ASSIGN_OR_RETURN(Statement count,
                      db_->Prepare("SELECT count(*) FROM trajectories" + where.sql()));
  where.Bind(count);
  TM_ASSIGN_OR_RETURN(const bool counted, count.Next());
  TM_CHECK(counted, "a count has one row");
  result.total = count.Uint(0);
  TM_ASSIGN_OR_RETURN(Statement rows, db_->Prepare(list));
  where.Bind(rows);
  rows.Add(page.limit);
  rows.Add(std::min<uint64_t>(page.offset, INT64_MAX));
  while (true) {
    TM_ASSIGN_OR_RETURN(const bool more, rows.Next());
    if (!more) return result;
    result.rows.push_back(ReadEpisodeRow(rows));
  }
}

Result<EpisodeDetail> RunReader::Episode(uint64_t group, uint32_t member) {
  MutexLock lock(mutex_);
  std::optional<EpisodeDetail> detail;
  const std::string find = std::string("SELECT ") + kEpisodeColumns +
                           " FROM trajectories WHERE grp = ?1 AND member = ?2 LIMIT 1";
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_, find,
      [&](Statement& row) {
        detail.emplace().row = ReadEpisodeRow(row);
        return Ok();
      },
      group, member));
  const std::string name = "group " + std::to_string(group) + " member " + std::to_string(member);
  if (!detail) return NotFound(db_->path() + ": no episode of " + name);
  const std::string where = db_->path() + ": episode of " + name;
  BodyCodec codec;
  bool body_found = false;
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_, "SELECT b.body, v.body FROM bodies b LEFT JOIN verdicts v USING (seq) WHERE seq = ?1",
      [&](Statement& row) -> Status {
        body_found = true;
        TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(0), detail->trajectory).WithContext(where));
        if (row.IsNull(1)) return Ok();
        return codec.Unpack(row.Bytes(1), detail->verdict.emplace()).WithContext(where);
      },
      detail->row.seq));
  if (!body_found && detail->row.fate == FateName(Fate::kDeleted))
    return NotFound(where + " was deleted");
  if (!body_found) return Corrupt(where + ": its body is missing");
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_, "SELECT step FROM uses WHERE seq = ?1 AND abandoned = 0 ORDER BY step",
      [&](Statement& row) {
        detail->used_by.push_back(row.Uint(0));
        return Ok();
      },
      detail->row.seq));
  return std::move(*detail);
}

Result<GroupRow> RunReader::Group(uint64_t group) {
  MutexLock lock(mutex_);
  GroupRow result;
  bool found = false;
  BodyCodec codec;
  const std::string where = db_->path() + ": group " + std::to_string(group);
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_, "SELECT lease, report FROM groups WHERE grp = ?1",
      [&](Statement& row) -> Status {
        found = true;
        TM_RETURN_IF_ERROR(codec.Unpack(row.Bytes(0), result.lease).WithContext(where));
        result.report.set_group(group);
        if (row.IsNull(1)) return Ok();
        return codec.Unpack(row.Bytes(1), result.report).WithContext(where);
      },
      group));
  const std::string list = std::string("SELECT ") + kEpisodeColumns +
                           " FROM trajectories WHERE grp = ?1 ORDER BY member, seq";
  TM_RETURN_IF_ERROR(ForEachRow(
      *db_, list,
      [&](Statement& row) {
        result.episodes.push_back(ReadEpisodeRow(row));
        return Ok();
      },
      group));
  if (!found && result.episodes.empty()) {
    return NotFound(db_->path() + ": no group " + std::to_string(group));
  }
  return result;
}

}  // namespace tidemill
