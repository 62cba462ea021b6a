#include "store/schema.h"

#include <string>
#include <string_view>

namespace tidemill {
namespace {

// Bodies are apart from their columns so that a scan over a hundred thousand episodes reads few
// pages. `abandoned` is 0 for what belongs to the line of weights that lives, else the resume that
// left it.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE trajectories (
  seq            INTEGER PRIMARY KEY,
  task           TEXT    NOT NULL,
  grp            INTEGER NOT NULL,
  member         INTEGER NOT NULL,
  attempt        INTEGER NOT NULL,
  purpose        INTEGER NOT NULL,
  eval_name      TEXT    NOT NULL,
  end            INTEGER NOT NULL,
  stale_cause    TEXT    NOT NULL,
  worker         TEXT    NOT NULL,
  group_members  INTEGER NOT NULL,
  started_ms     INTEGER NOT NULL,
  finished_ms    INTEGER NOT NULL,
  stored_ms      INTEGER NOT NULL,
  prompt_tokens  INTEGER NOT NULL,
  tokens         INTEGER NOT NULL,
  turns          INTEGER NOT NULL,
  tool_calls     INTEGER NOT NULL,
  min_version    INTEGER,
  max_version    INTEGER,
  fate           TEXT    NOT NULL DEFAULT 'stored',
  fate_reason    TEXT    NOT NULL DEFAULT '',
  uses           INTEGER NOT NULL DEFAULT 0,
  scored         INTEGER,
  reward         REAL,
  solved         INTEGER,
  tests_passed   INTEGER,
  tests_total    INTEGER,
  compiled       INTEGER
);
CREATE UNIQUE INDEX trajectories_key     ON trajectories (grp, member, task);
CREATE INDEX trajectories_by_task        ON trajectories (task, purpose, finished_ms, scored, solved, reward);
CREATE INDEX trajectories_by_time        ON trajectories (purpose, finished_ms, solved, reward);
CREATE INDEX trajectories_by_reward      ON trajectories (reward);
CREATE INDEX trajectories_by_fate        ON trajectories (fate, purpose);
CREATE INDEX trajectories_by_tokens      ON trajectories (tokens);
CREATE INDEX trajectories_by_cause       ON trajectories (stale_cause) WHERE stale_cause <> '';
CREATE INDEX trajectories_by_version     ON trajectories (max_version, min_version);
CREATE INDEX trajectories_by_eval        ON trajectories (eval_name, task, scored, solved, reward) WHERE purpose = 2;

CREATE TABLE bodies (
  seq            INTEGER PRIMARY KEY,
  body           BLOB    NOT NULL
);
CREATE TABLE verdicts (
  seq            INTEGER PRIMARY KEY,
  at_ms          INTEGER NOT NULL,
  body           BLOB    NOT NULL
);
CREATE TABLE steps (
  abandoned      INTEGER NOT NULL,
  step           INTEGER NOT NULL,
  version        INTEGER NOT NULL,
  at_ms          INTEGER NOT NULL,
  metrics_json   TEXT    NOT NULL,
  PRIMARY KEY (abandoned, step)
);
CREATE TABLE uses (
  abandoned      INTEGER NOT NULL,
  step           INTEGER NOT NULL,
  seq            INTEGER NOT NULL,
  PRIMARY KEY (abandoned, step, seq)
) WITHOUT ROWID;
CREATE INDEX uses_by_trajectory ON uses (seq);
CREATE TABLE groups (
  grp            INTEGER PRIMARY KEY,
  task           TEXT    NOT NULL,
  purpose        INTEGER NOT NULL,
  eval_name      TEXT    NOT NULL,
  members        INTEGER NOT NULL,
  issued_ms      INTEGER NOT NULL,
  cursor         TEXT    NOT NULL,
  lease          BLOB    NOT NULL,
  revision       INTEGER NOT NULL DEFAULT 0,
  accepted       INTEGER NOT NULL DEFAULT 0,
  dropped        INTEGER NOT NULL DEFAULT 0,
  reissue        INTEGER NOT NULL DEFAULT 0,
  report         BLOB
);
CREATE INDEX groups_by_task     ON groups (task, purpose, eval_name, grp);
CREATE INDEX groups_outstanding ON groups (grp) WHERE accepted + dropped < members;
CREATE INDEX groups_to_reissue  ON groups (grp) WHERE reissue = 1;
CREATE TABLE versions (
  version        INTEGER PRIMARY KEY,
  step           INTEGER NOT NULL,
  reserved_ms    INTEGER NOT NULL
);
CREATE TABLE checkpoints (
  abandoned      INTEGER NOT NULL,
  step           INTEGER NOT NULL,
  version        INTEGER NOT NULL,
  path           TEXT    NOT NULL,
  at_ms          INTEGER NOT NULL,
  PRIMARY KEY (abandoned, step)
);
CREATE TABLE resumes (
  resume         INTEGER PRIMARY KEY,
  from_step      INTEGER NOT NULL,
  at_ms          INTEGER NOT NULL
);
)sql";

// The gateway's sessions. The bodies are v1::Session and v1::SessionTurn; columns are for lists.
constexpr const char* kVersion2 = R"sql(
CREATE TABLE sessions (
  session        INTEGER PRIMARY KEY,
  tenant         TEXT    NOT NULL,
  name           TEXT    NOT NULL,
  agent          TEXT    NOT NULL,
  started_ms     INTEGER NOT NULL,
  closed_ms      INTEGER NOT NULL,
  body           BLOB    NOT NULL
);
CREATE INDEX sessions_by_tenant ON sessions (tenant, name);
CREATE INDEX sessions_open      ON sessions (session) WHERE closed_ms = 0;
CREATE TABLE session_turns (
  session        INTEGER NOT NULL,
  turn           INTEGER NOT NULL,
  question       INTEGER NOT NULL,
  finished_ms    INTEGER NOT NULL,
  tokens         INTEGER NOT NULL,
  body           BLOB    NOT NULL,
  PRIMARY KEY (session, turn)
);
)sql";

// What people and programs say of sessions. The body is v1::Signal.
constexpr const char* kVersion3 = R"sql(
CREATE TABLE signals (
  session        INTEGER NOT NULL,
  turn           INTEGER NOT NULL,
  span_from      INTEGER NOT NULL,
  span_to        INTEGER NOT NULL,
  source         TEXT    NOT NULL,
  by_whom        TEXT    NOT NULL,
  at_ms          INTEGER NOT NULL,
  score          REAL    NOT NULL,
  body           BLOB    NOT NULL,
  PRIMARY KEY (session, turn, span_from, span_to, source, by_whom)
);
)sql";

// Cases of memory, in the order they were learned. The body is v1::CaseRecord; without one the case
// was erased.
constexpr const char* kVersion4 = R"sql(
CREATE TABLE cases (
  number         INTEGER PRIMARY KEY AUTOINCREMENT,
  grp            INTEGER NOT NULL,
  member         INTEGER NOT NULL,
  task           TEXT    NOT NULL,
  scope          TEXT    NOT NULL,
  tenant         TEXT    NOT NULL,
  session        INTEGER NOT NULL,
  body           BLOB,
  UNIQUE (grp, member, task)
);
)sql";

// Evaluations, each apart from others of the same name. In a run of an older schema, an evaluation
// is what one process of the run issued under a name; how many tasks it was to have, the one with
// the most says.
constexpr const char* kVersion5 = R"sql(
CREATE TABLE evaluations (
  evaluation     INTEGER PRIMARY KEY,
  eval_name      TEXT    NOT NULL,
  step           INTEGER NOT NULL,
  tasks          INTEGER NOT NULL,
  abandoned      INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE evaluation_groups (
  evaluation     INTEGER NOT NULL,
  grp            INTEGER NOT NULL UNIQUE,
  PRIMARY KEY (evaluation, grp)
) WITHOUT ROWID;
INSERT INTO evaluation_groups (evaluation, grp)
  SELECT min(grp) OVER (PARTITION BY eval_name, part), grp FROM (
    SELECT grp, eval_name, (SELECT count(*) FROM resumes WHERE at_ms <= issued_ms) AS part
    FROM groups WHERE purpose = 2);
INSERT INTO evaluations (evaluation, eval_name, step, tasks)
  SELECT grp, eval_name,
    (SELECT coalesce(max(step), 0) FROM steps WHERE at_ms <= issued_ms AND (abandoned = 0 OR
      abandoned > (SELECT count(*) FROM resumes WHERE resumes.at_ms <= issued_ms))),
    (SELECT max(n) FROM (SELECT count(*) AS n FROM evaluation_groups JOIN groups o USING (grp)
      WHERE o.eval_name = g.eval_name GROUP BY evaluation))
  FROM groups g WHERE grp IN (SELECT evaluation FROM evaluation_groups);
UPDATE evaluations SET abandoned = coalesce((SELECT min(resume) FROM resumes
  WHERE from_step < evaluations.step AND
    at_ms > (SELECT issued_ms FROM groups WHERE grp = evaluation)), 0);
)sql";

// Checkpoints by their paths in the run's folder, where all of them lie: before, as the folder was
// named on the command line.
constexpr const char* kVersion6 = R"sql(
UPDATE checkpoints SET path = 'checkpoints/' ||
  replace(path, rtrim(path, replace(path, '/', '')), '');
)sql";

// Which version a run serves, in one row. The body is v1::ReleaseState.
constexpr const char* kVersion7 = R"sql(
CREATE TABLE release (
  id             INTEGER PRIMARY KEY CHECK (id = 1),
  at_ms          INTEGER NOT NULL,
  body           BLOB    NOT NULL
);
)sql";

// Whose a step and a version is; the run's steps are those of all policies.
constexpr const char* kVersion8 = R"sql(
ALTER TABLE steps ADD COLUMN policy TEXT NOT NULL DEFAULT '';
ALTER TABLE steps ADD COLUMN policy_step INTEGER;
ALTER TABLE versions ADD COLUMN policy TEXT NOT NULL DEFAULT '';
ALTER TABLE versions ADD COLUMN policy_step INTEGER;
)sql";

// What became of the repository of skills, in the order it was learned.
constexpr const char* kVersion9 = R"sql(
CREATE TABLE skill_lessons (
  number         INTEGER PRIMARY KEY AUTOINCREMENT,
  key            TEXT    NOT NULL UNIQUE,
  grp            INTEGER NOT NULL,
  scope          TEXT    NOT NULL,
  at_ms          INTEGER NOT NULL,
  body           BLOB    NOT NULL
);
CREATE INDEX skill_lessons_group ON skill_lessons (grp);
)sql";

constexpr const char* kMigrations[] = {kVersion1, kVersion2, kVersion3, kVersion4,
                                       kVersion5, kVersion6, kVersion7, kVersion8,
                                       kVersion9};

Status Foreign(Database& db) {
  return Invalid(db.path() + ": an SQLite database, but not that of a Tidemill run");
}

// The schema's version; kInvalid unless the file is ours (or empty, where that is allowed).
Result<int64_t> OwnVersion(Database& db, bool may_be_empty) {
  TM_ASSIGN_OR_RETURN(const int64_t tables, db.Integer("SELECT count(*) FROM sqlite_schema"));
  TM_ASSIGN_OR_RETURN(const int64_t owner, db.Integer("PRAGMA application_id"));
  TM_ASSIGN_OR_RETURN(const int64_t version, db.Integer("PRAGMA user_version"));
  const bool empty = tables == 0 && owner == 0 && version == 0;
  if (empty ? !may_be_empty : owner != kRunDbApplicationId) return Foreign(db);
  return version;
}

Status TooNew(Database& db, int64_t version, size_t known) {
  return Invalid(db.path() + ": schema version " + std::to_string(version) +
                 " was written by a newer tidemill; this program supports versions up to " +
                 std::to_string(known));
}

Status RunMigration(Database& db, const char* sql, size_t to_version) {
  TM_RETURN_IF_ERROR(db.Exec("BEGIN IMMEDIATE"));
  Status status = db.Exec(sql);
  if (status.ok()) {
    const std::string mark = "PRAGMA application_id = " + std::to_string(kRunDbApplicationId) +
                             "; PRAGMA user_version = " + std::to_string(to_version) + "; COMMIT";
    status = db.Exec(mark.c_str());
  }
  if (!status.ok()) db.Rollback();
  return status.WithContext("migrating the schema to version " + std::to_string(to_version));
}

}  // namespace

std::span<const char* const> RunDbMigrations() {
  return kMigrations;
}

Status Migrate(Database& db, std::span<const char* const> migrations) {
  TM_ASSIGN_OR_RETURN(const int64_t version, OwnVersion(db, /*may_be_empty=*/true));
  if (version < 0 || static_cast<size_t>(version) > migrations.size()) {
    return TooNew(db, version, migrations.size());
  }
  for (size_t n = static_cast<size_t>(version); n < migrations.size(); ++n) {
    TM_RETURN_IF_ERROR(RunMigration(db, migrations[n], n + 1));
  }
  return Ok();
}

Status ReadOlderEvaluations(Database& db) {
  TM_ASSIGN_OR_RETURN(const int64_t version, OwnVersion(db, /*may_be_empty=*/false));
  if (version >= kEvaluationsSchema) return Ok();
  std::string sql = kVersion5;
  constexpr std::string_view kMake = "CREATE TABLE";
  for (size_t at = 0; (at = sql.find(kMake, at)) != std::string::npos; ++at) {
    sql.replace(at, kMake.size(), "CREATE TEMP TABLE");
  }
  TM_RETURN_IF_ERROR(db.Exec("PRAGMA temp_store = MEMORY"));
  return db.Exec(sql.c_str());
}

Status CheckSchema(Database& db, std::span<const char* const> migrations, int64_t oldest) {
  TM_ASSIGN_OR_RETURN(const int64_t version, OwnVersion(db, /*may_be_empty=*/false));
  if (version < 0 || static_cast<size_t>(version) > migrations.size()) {
    return TooNew(db, version, migrations.size());
  }
  if (version < oldest) {
    return Invalid(
        db.path() + ": schema version " + std::to_string(version) +
        " was written by an older tidemill; resume the run once to migrate it to version " +
        std::to_string(migrations.size()));
  }
  return Ok();
}

}  // namespace tidemill
