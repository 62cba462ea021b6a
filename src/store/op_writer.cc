#include "store/op_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/fate.h"
#include "core/ids.h"

namespace tidemill {
namespace {

constexpr uint64_t kNumberMax = std::numeric_limits<int64_t>::max();

Status CheckNumber(const char* what, uint64_t number) {
  if (number <= kNumberMax) return Ok();
  return Invalid(std::string(what) + " " + std::to_string(number) + " is above " +
                 std::to_string(kNumberMax));
}

std::string Describe(const v1::TrajectoryId& id) {
  return TrajectoryKey::From(id).ToString();
}

Status CheckId(const v1::TrajectoryId& id) {
  if (id.task().empty()) return Invalid("a trajectory id without a task");
  return CheckNumber("group", id.group());
}

// Whether the statement gives a row.
Result<bool> Any(Statement& statement) {
  TM_ASSIGN_OR_RETURN(const bool row, statement.Next());
  statement.Reset();
  return row;
}

// The columns of a trajectory.
struct Shape {
  uint64_t tokens = 0;
  uint64_t tool_calls = 0;
  std::optional<uint64_t> min_version;
  std::optional<uint64_t> max_version;
};

Shape ShapeOf(const v1::Trajectory& trajectory) {
  Shape shape;
  for (const v1::Turn& turn : trajectory.turns()) {
    shape.tokens += static_cast<uint64_t>(turn.ids_size());
    shape.tool_calls += static_cast<uint64_t>(turn.calls_size());
    for (const v1::VersionRun& run : turn.versions()) {
      if (run.tokens() == 0) continue;
      shape.min_version = std::min(shape.min_version.value_or(run.version()), run.version());
      shape.max_version = std::max(shape.max_version.value_or(run.version()), run.version());
    }
  }
  return shape;
}

}  // namespace

struct OpWriter::Statements {
  Statement savepoint, release, undo;
  Statement find, put_trajectory, put_body, put_verdict, set_verdict, set_fate;
  Statement put_step, put_use, count_use, put_group, put_report, find_group;
  Statement put_evaluation, put_evaluation_group;
  Statement next_version, put_version, put_checkpoint;
  Statement put_session, find_session, find_turn, put_turn, put_signal;
  Statement deleted_session, deleted_trajectory;
  Statement put_case, cases_of_turn, erase_cases;
};

OpWriter::OpWriter(Database& db, const Clock& clock) : db_(db), clock_(clock) {}
OpWriter::~OpWriter() = default;

Status OpWriter::Prepare() {
  Status failure;
  auto prepare = [&](const std::string& sql) -> Statement {
    auto statement = db_.Prepare(sql);
    if (statement.ok()) return std::move(*statement);
    if (failure.ok()) failure = statement.status();
    return {nullptr, nullptr, nullptr};
  };
  statements_.reset(new Statements{
      prepare("SAVEPOINT op"),
      prepare("RELEASE op"),
      prepare("ROLLBACK TO op"),
      prepare("SELECT seq, attempt FROM trajectories WHERE grp = ?1 AND member = ?2 AND task = ?3"),
      prepare(
          "INSERT INTO trajectories (task, grp, member, attempt, purpose, eval_name, end, "
          "stale_cause, worker, group_members, started_ms, finished_ms, stored_ms, prompt_tokens, "
          "tokens, turns, tool_calls, min_version, max_version) "
          "VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19)"),
      prepare("INSERT INTO bodies (seq, body) VALUES (?1, ?2)"),
      prepare("INSERT OR REPLACE INTO verdicts (seq, at_ms, body) VALUES (?1, ?2, ?3)"),
      prepare("UPDATE trajectories SET scored = ?2, reward = ?3, solved = ?4, tests_passed = ?5, "
              "tests_total = ?6, compiled = ?7 WHERE seq = ?1"),
      prepare("UPDATE trajectories SET fate = ?2, fate_reason = ?3 WHERE seq = ?1 AND fate <> " +
              Quoted(Fate::kDeleted)),
      prepare("INSERT OR REPLACE INTO steps (abandoned, step, version, at_ms, metrics_json, "
              "policy, policy_step) VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6)"),
      prepare("INSERT OR IGNORE INTO uses (abandoned, step, seq) VALUES (0, ?1, ?2)"),
      prepare("UPDATE trajectories SET uses = uses + 1, fate = CASE WHEN fate IN (" +
              LiveFatesSql() + ") THEN " + Quoted(Fate::kUsed) + " ELSE fate END WHERE seq = ?1"),
      prepare("INSERT OR IGNORE INTO groups (grp, task, purpose, eval_name, members, issued_ms, "
              "cursor, lease) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"),
      prepare("UPDATE groups SET revision = ?2, accepted = ?3, dropped = ?4, reissue = ?5, "
              "report = ?6 WHERE grp = ?1 AND revision < ?2"),
      prepare("SELECT task FROM groups WHERE grp = ?1"),
      prepare("INSERT OR IGNORE INTO evaluations VALUES (?1, ?2, ?3, ?4, 0)"),
      prepare("INSERT OR IGNORE INTO evaluation_groups (evaluation, grp) VALUES (?1, ?2)"),
      prepare("SELECT coalesce(max(version), 0) + 1 FROM versions"),
      prepare("INSERT OR IGNORE INTO versions VALUES (?1, ?2, ?3, ?4, ?5)"),
      prepare("INSERT OR REPLACE INTO checkpoints (abandoned, step, version, path, at_ms) "
              "VALUES (0, ?1, ?2, ?3, ?4)"),
      prepare("INSERT OR REPLACE INTO sessions (session, tenant, name, agent, started_ms, "
              "closed_ms, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"),
      prepare("SELECT 1 FROM sessions WHERE session = ?1 AND tenant <> ''"),
      prepare("SELECT 1 FROM session_turns WHERE session = ?1 AND turn = ?2"),
      prepare("INSERT INTO session_turns (session, turn, question, finished_ms, tokens, body) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
      prepare("INSERT OR REPLACE INTO signals (session, turn, span_from, span_to, source, by_whom, "
              "at_ms, score, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"),
      prepare("SELECT 1 FROM sessions WHERE session = ?1 AND tenant = ''"),
      prepare("SELECT 1 FROM trajectories WHERE seq = ?1 AND fate = " + Quoted(Fate::kDeleted)),
      prepare("INSERT OR IGNORE INTO cases (grp, member, task, scope, tenant, session, body) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"),
      prepare("SELECT body FROM cases WHERE grp = ?1 AND member = ?2 AND session = ?3 ORDER BY "
              "number"),
      // With all that was said of the same turn of a session.
      prepare("UPDATE cases SET body = NULL, scope = '', tenant = '' WHERE (?1 = 0 OR number = ?1 "
              "OR (session <> 0 AND (session, member) = (SELECT session, member FROM cases WHERE "
              "number = ?1))) AND (?2 = 0 OR session = ?2) AND (?3 = '' OR tenant = ?3) AND (?4 = "
              "'' OR scope = ?4) AND (?5 = '' OR task = ?5)"),
  });
  return failure;
}

Status OpWriter::Write(const StoreOp& op, uint64_t& version) {
  TM_RETURN_IF_ERROR(statements_->savepoint.With().Run());
  Status status = std::visit(
      [&](const auto& one) -> Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, ReserveVersion>) {
          TM_ASSIGN_OR_RETURN(version, Reserve(one));
          return Ok();
        } else if constexpr (std::is_same_v<std::decay_t<decltype(one)>, PutCase>) {
          TM_ASSIGN_OR_RETURN(version, Learn(one));
          return Ok();
        } else if constexpr (std::is_same_v<std::decay_t<decltype(one)>, PutSkillLesson>) {
          TM_ASSIGN_OR_RETURN(version, Teach(one));
          return Ok();
        } else {
          return Put(one);
        }
      },
      op);
  if (status.ok()) return statements_->release.With().Run();
  // A failing disk ends the whole transaction, the savepoint with it.
  if (db_.InTransaction()) {
    TM_RETURN_IF_ERROR(statements_->undo.With().Run());
    TM_RETURN_IF_ERROR(statements_->release.With().Run());
  }
  return status;
}

Result<int64_t> OpWriter::Find(const v1::TrajectoryId& id) {
  TM_RETURN_IF_ERROR(CheckId(id));
  Statement& find = statements_->find.With(id.group(), id.member(), id.task());
  TM_ASSIGN_OR_RETURN(const bool found, find.Next());
  if (!found) return NotFound("no trajectory " + Describe(id) + " is stored");
  const int64_t seq = find.Int(0);
  const uint64_t attempt = find.Uint(1);
  find.Reset();
  if (attempt == id.attempt()) return seq;
  return NotFound("no trajectory " + Describe(id) + " is stored, attempt " +
                  std::to_string(attempt) + " is");
}

Status OpWriter::Put(const PutTrajectory& op) {
  const v1::Trajectory& t = op.trajectory;
  const v1::TrajectoryId& id = t.id();
  TM_RETURN_IF_ERROR(CheckId(id));
  if (t.purpose() == v1::PURPOSE_UNSPECIFIED) {
    return Invalid("trajectory " + Describe(id) + ": purpose must be TRAIN, EVAL or LIVE");
  }
  const Shape shape = ShapeOf(t);
  TM_RETURN_IF_ERROR(CheckNumber("version", shape.max_version.value_or(0)));
  Statement& find = statements_->find.With(id.group(), id.member(), id.task());
  TM_ASSIGN_OR_RETURN(const bool found, find.Next());
  if (found) {
    const uint64_t attempt = find.Uint(1);
    find.Reset();
    return Exists("trajectory " + Describe(id) + ": attempt " + std::to_string(attempt) +
                  " of this member is stored already");
  }
  auto body = codec_.Pack(t);
  if (!body.ok()) return body.status().WithContext("trajectory " + Describe(id));
  TM_RETURN_IF_ERROR(statements_->put_trajectory
                         .With(id.task(), id.group(), id.member(), id.attempt(),
                               static_cast<int>(t.purpose()), t.eval_name(),
                               static_cast<int>(t.end()), t.stale_cause(), t.worker(),
                               t.group_members(), t.started_ms(), t.finished_ms(), clock_.WallMs(),
                               t.prompt_ids_size(), shape.tokens, t.turns_size(), shape.tool_calls,
                               shape.min_version, shape.max_version)
                         .Run());
  return statements_->put_body.With(db_.LastRowId(), BlobRef{*body}).Run();
}

Status OpWriter::Put(const PutVerdict& op) {
  const v1::Verdict& v = op.verdict;
  if (v.scored() && !std::isfinite(v.reward())) {
    return Invalid("verdict on " + Describe(v.id()) + ": its reward is not a number");
  }
  TM_ASSIGN_OR_RETURN(const int64_t seq, Find(v.id()));
  TM_ASSIGN_OR_RETURN(const bool deleted, Any(statements_->deleted_trajectory.With(seq)));
  if (deleted) return NotFound("trajectory " + Describe(v.id()) + " was deleted");
  TM_ASSIGN_OR_RETURN(const std::string body, codec_.Pack(v));
  TM_RETURN_IF_ERROR(statements_->put_verdict.With(seq, clock_.WallMs(), BlobRef{body}).Run());
  // A verdict without a reward leaves none behind: ours never turns into a reward of zero.
  if (!v.scored()) {
    return statements_->set_verdict.With(seq, 0, nullptr, nullptr, nullptr, nullptr, nullptr).Run();
  }
  return statements_->set_verdict
      .With(seq, 1, v.reward(), v.solved(), v.tests_passed(), v.tests_total(), v.compiled())
      .Run();
}

Status OpWriter::Put(const PutFate& op) {
  TM_ASSIGN_OR_RETURN(const int64_t seq, Find(op.id));
  return statements_->set_fate.With(seq, FateName(op.fate), op.reason).Run();
}

Status OpWriter::Put(const PutStep& op) {
  TM_RETURN_IF_ERROR(CheckNumber("step", op.step));
  TM_RETURN_IF_ERROR(KeepVersion(op.version, op.step, op.of));
  TM_RETURN_IF_ERROR(statements_->put_step
                         .With(op.step, op.version, clock_.WallMs(), op.metrics_json, op.of.policy,
                               op.of.step.value_or(op.step))
                         .Run());
  for (const v1::TrajectoryId& id : op.used) {
    auto seq = Find(id);
    if (!seq.ok()) return seq.status().WithContext("step " + std::to_string(op.step));
    TM_RETURN_IF_ERROR(statements_->put_use.With(op.step, *seq).Run());
    if (db_.Changes() == 0) continue;  // counted before
    TM_RETURN_IF_ERROR(statements_->count_use.With(*seq).Run());
  }
  return Ok();
}

Status OpWriter::Put(const PutGroup& op) {
  const v1::GroupLease& g = op.group;
  TM_RETURN_IF_ERROR(CheckNumber("group", g.group()));
  if (g.task().id().empty()) {
    return Invalid("group " + std::to_string(g.group()) + " without a task");
  }
  TM_ASSIGN_OR_RETURN(const std::string lease, codec_.Pack(g));
  TM_RETURN_IF_ERROR(statements_->put_group
                         .With(g.group(), g.task().id(), static_cast<int>(g.purpose()),
                               g.eval_name(), g.members(), g.issued_ms(), op.cursor, BlobRef{lease})
                         .Run());
  if (db_.Changes() != 0) return op.evaluation ? PutEvaluation(op) : Ok();
  Statement& find = statements_->find_group.With(g.group());
  TM_ASSIGN_OR_RETURN(const bool found, find.Next());
  TM_CHECK(found, "an insert was ignored for a row that is not there");
  const std::string task = find.Text(0);
  find.Reset();
  if (task == g.task().id()) return Ok();  // the same one again
  return Exists("group " + std::to_string(g.group()) + " was given to task " + task +
                " already, not to " + g.task().id());
}

Status OpWriter::PutEvaluation(const PutGroup& op) {
  const GroupEvaluation& e = *op.evaluation;
  TM_RETURN_IF_ERROR(CheckNumber("evaluation", e.number));
  TM_RETURN_IF_ERROR(CheckNumber("step", e.step));
  TM_RETURN_IF_ERROR(
      statements_->put_evaluation.With(e.number, op.group.eval_name(), e.step, e.tasks).Run());
  return statements_->put_evaluation_group.With(e.number, op.group.group()).Run();
}

Status OpWriter::Put(const PutGroupReport& op) {
  const v1::GroupReport& r = op.report;
  TM_RETURN_IF_ERROR(CheckNumber("group", r.group()));
  if (r.revision() == 0) {
    return Invalid("a report on group " + std::to_string(r.group()) + " without a revision");
  }
  Statement& find = statements_->find_group.With(r.group());
  TM_ASSIGN_OR_RETURN(const bool found, find.Next());
  find.Reset();
  if (!found) return NotFound("a report on group " + std::to_string(r.group()) + ", never issued");
  TM_ASSIGN_OR_RETURN(const std::string body, codec_.Pack(r));
  return statements_->put_report
      .With(r.group(), r.revision(), r.accepted(), r.dropped(), r.reissue(), BlobRef{body})
      .Run();
}

// What lies in the run's folder is kept relative to it: the folder may be moved or copied.
Status OpWriter::Put(const PutCheckpoint& op) {
  TM_RETURN_IF_ERROR(CheckNumber("step", op.step));
  TM_RETURN_IF_ERROR(KeepVersion(op.version, op.step, {}));
  const std::string folder = db_.path().substr(0, db_.path().rfind('/') + 1);
  const bool within = !folder.empty() && op.path.starts_with(folder);
  return statements_->put_checkpoint
      .With(op.step, op.version, within ? op.path.substr(folder.size()) : op.path, clock_.WallMs())
      .Run();
}

Status OpWriter::Put(const PutSession& op) {
  const v1::Session& s = op.session;
  if (s.number() == 0) return Invalid("a session without a number");
  TM_RETURN_IF_ERROR(CheckNumber("session", s.number()));
  const std::string name = "session " + std::to_string(s.number());
  if (s.tenant().empty()) return Invalid(name + " without a tenant");
  TM_ASSIGN_OR_RETURN(const bool deleted, Any(statements_->deleted_session.With(s.number())));
  if (deleted) return NotFound(name + " was deleted");
  TM_ASSIGN_OR_RETURN(const std::string body, codec_.Pack(s));
  TM_RETURN_IF_ERROR(statements_->put_session
                         .With(s.number(), s.tenant(), s.name(), s.agent(), s.started_ms(),
                               s.closed_ms(), BlobRef{body})
                         .Run());
  for (const v1::Trajectory& trajectory : op.trajectories) {
    const Status put = Put(PutTrajectory{trajectory});
    if (!put.ok() && put.code() != Code::kExists) return put;
  }
  return Ok();
}

Status OpWriter::Put(const PutSessionTurn& op) {
  const v1::SessionTurn& t = op.turn;
  const std::string name =
      "turn " + std::to_string(t.turn()) + " of session " + std::to_string(t.session());
  TM_RETURN_IF_ERROR(CheckNumber("session", t.session()));
  TM_ASSIGN_OR_RETURN(const bool known, Any(statements_->find_session.With(t.session())));
  if (!known) return NotFound(name + ": the session is not stored");
  TM_ASSIGN_OR_RETURN(const bool found, Any(statements_->find_turn.With(t.session(), t.turn())));
  if (found) return Exists(name + " is stored already");
  auto body = codec_.Pack(t);
  if (!body.ok()) return body.status().WithContext(name);
  return statements_->put_turn
      .With(t.session(), t.turn(), t.question(), t.answer().finished_ms(), t.answer().ids_size(),
            BlobRef{*body})
      .Run();
}

Status OpWriter::Put(const PutRelease& op) {
  TM_ASSIGN_OR_RETURN(const std::string body, codec_.Pack(op.state));
  TM_ASSIGN_OR_RETURN(  // seldom: not kept
      Statement put,
      db_.Prepare("INSERT OR REPLACE INTO release (id, at_ms, body) VALUES (1, ?1, ?2)"));
  return put.With(clock_.WallMs(), BlobRef{body}).Run();
}

Status OpWriter::Put(const PutSignal& op) {
  const v1::Signal& s = op.signal;
  const std::string name = "a signal on session " + std::to_string(s.session());
  if (!(s.score() >= -1 && s.score() <= 1)) {
    return Invalid(name + ": its score must be from -1 to 1");
  }
  Statement& session = statements_->find_session.With(s.session());
  TM_ASSIGN_OR_RETURN(const bool known, session.Next());
  session.Reset();
  if (!known) return NotFound(name + ": the session is not stored");
  if (s.turn() != 0) {
    Statement& find = statements_->find_turn.With(s.session(), s.turn());
    TM_ASSIGN_OR_RETURN(const bool found, find.Next());
    find.Reset();
    if (!found) return NotFound(name + ": it has no turn " + std::to_string(s.turn()));
  }
  TM_ASSIGN_OR_RETURN(const std::string body, codec_.Pack(s));
  return statements_->put_signal
      .With(s.session(), s.turn(), s.span_from(), s.span_to(), s.source(), s.by(), s.at_ms(),
            s.score(), BlobRef{body})
      .Run();
}

Result<uint64_t> OpWriter::Learn(const PutCase& op) {
  const v1::CaseRecord& r = op.record;
  TM_RETURN_IF_ERROR(CheckId(r.id()));
  TM_RETURN_IF_ERROR(CheckNumber("session", r.session()));
  TM_ASSIGN_OR_RETURN(const std::string body, codec_.Pack(r));
  std::string task = r.id().task();
  if (r.session() != 0) TM_RETURN_IF_ERROR(NameRevision(r, task));
  TM_RETURN_IF_ERROR(statements_->put_case
                         .With(r.id().group(), r.id().member(), task, r.scope(), r.tenant(),
                               r.session(), BlobRef{body})
                         .Run());
  if (db_.Changes() == 0) return Exists("a case of " + Describe(r.id()) + " is stored already");
  return static_cast<uint64_t>(db_.LastRowId());
}

Result<uint64_t> OpWriter::Teach(const PutSkillLesson& op) {
  const v1::SkillLesson& lesson = op.lesson;
  if (lesson.key().empty()) return Invalid("a lesson without a key");
  TM_RETURN_IF_ERROR(CheckNumber("group", lesson.group()));
  TM_ASSIGN_OR_RETURN(const std::string body, codec_.Pack(lesson));
  TM_ASSIGN_OR_RETURN(  // seldom: not kept
      Statement put,
      db_.Prepare("INSERT OR IGNORE INTO skill_lessons (key, grp, scope, at_ms, body) VALUES (?1, "
                  "?2, ?3, ?4, ?5)"));
  TM_RETURN_IF_ERROR(
      put.With(lesson.key(), lesson.group(), lesson.scope(), lesson.at_ms(), BlobRef{body}).Run());
  if (db_.Changes() == 0) return Exists("a lesson \"" + lesson.key() + "\" is stored already");
  return static_cast<uint64_t>(db_.LastRowId());
}

// What is said of a turn may change: then it is a case again, under a name of its own. What was
// erased stays away, and what says the same as the newest is a repetition.
Status OpWriter::NameRevision(const v1::CaseRecord& record, std::string& task) {
  const std::string name = "a case of session " + std::to_string(record.session());
  TM_ASSIGN_OR_RETURN(const bool known, Any(statements_->find_session.With(record.session())));
  TM_ASSIGN_OR_RETURN(const bool deleted, Any(statements_->deleted_session.With(record.session())));
  if (!known || deleted) return NotFound(name + ": the session is not stored");
  Statement& earlier =
      statements_->cases_of_turn.With(record.id().group(), record.id().member(), record.session());
  uint64_t count = 0;
  bool erased = false, same = false;
  while (true) {
    TM_ASSIGN_OR_RETURN(const bool row, earlier.Next());
    if (!row) break;
    ++count;
    v1::CaseRecord before;
    erased = erased || earlier.IsNull(0);
    same = !earlier.IsNull(0) && codec_.Unpack(earlier.Bytes(0), before).ok() &&
           before.reward() == record.reward();
  }
  earlier.Reset();
  if (erased || same) return Exists(name + " is stored already, or was erased");
  if (count > 0) task += "#" + std::to_string(count + 1);
  return Ok();
}

Status OpWriter::Put(const EraseCases& op) {
  if (op.number == 0 && op.session == 0 && op.tenant.empty() && op.scope.empty() &&
      op.task.empty()) {
    return Invalid("nothing says which cases to erase");
  }
  return statements_->erase_cases.With(op.number, op.session, op.tenant, op.scope, op.task).Run();
}

Result<uint64_t> OpWriter::Reserve(const ReserveVersion& op) {
  TM_RETURN_IF_ERROR(CheckNumber("step", op.step));
  Statement& next = statements_->next_version.With();
  TM_ASSIGN_OR_RETURN(const bool row, next.Next());
  TM_CHECK(row, "an aggregate has one row");
  const uint64_t version = next.Uint(0);
  next.Reset();
  TM_RETURN_IF_ERROR(KeepVersion(version, op.step, op.of));
  return version;
}

Status OpWriter::KeepVersion(uint64_t version, uint64_t step, const PolicyStep& of) {
  TM_RETURN_IF_ERROR(CheckNumber("version", version));
  if (version == 0) return Ok();  // not said
  return statements_->put_version
      .With(version, step, clock_.WallMs(), of.policy, of.step.value_or(step))
      .Run();
}

}  // namespace tidemill
