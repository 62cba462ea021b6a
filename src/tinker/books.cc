#include "tinker/books.h"

#include <utility>

namespace tidemill {
namespace {

constexpr const char* kTables = R"sql(
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS sessions (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, key TEXT, metadata TEXT NOT NULL,
  created_ms INTEGER NOT NULL, beat_ms INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
  UNIQUE (tenant, key)
);
CREATE TABLE IF NOT EXISTS models (
  id TEXT PRIMARY KEY, session TEXT NOT NULL, tenant TEXT NOT NULL, base TEXT NOT NULL,
  rank INTEGER NOT NULL, seed INTEGER NOT NULL, attention INTEGER NOT NULL, mlp INTEGER NOT NULL,
  made_from TEXT NOT NULL, from_optimizer INTEGER NOT NULL, metadata TEXT NOT NULL,
  created_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, saved_seq INTEGER NOT NULL, broken TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS models_by_session ON models (session);
CREATE TABLE IF NOT EXISTS ops (
  model TEXT NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL, body BLOB NOT NULL,
  done INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0, binary INTEGER NOT NULL DEFAULT 0,
  result BLOB, done_ms INTEGER,
  PRIMARY KEY (model, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ops_by_time ON ops (done_ms) WHERE result IS NOT NULL;
CREATE TABLE IF NOT EXISTS samplers (
  id TEXT PRIMARY KEY, session TEXT NOT NULL, tenant TEXT NOT NULL, base TEXT NOT NULL,
  kind INTEGER NOT NULL, path TEXT NOT NULL, weights TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS samplers_by_session ON samplers (session);
CREATE TABLE IF NOT EXISTS checkpoints (
  path TEXT PRIMARY KEY, model TEXT NOT NULL, tenant TEXT NOT NULL, training INTEGER NOT NULL,
  name TEXT NOT NULL, folder TEXT NOT NULL, bytes INTEGER NOT NULL, time_ms INTEGER NOT NULL,
  expires_ms INTEGER, open INTEGER NOT NULL, metadata TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS checkpoints_by_tenant ON checkpoints (tenant, model);
)sql";

#define TM_SESSION_COLUMNS "id, tenant, metadata, created_ms, beat_ms, ended"
#define TM_MODEL_COLUMNS                                                               \
  "id, session, tenant, base, rank, seed, attention, mlp, made_from, from_optimizer, " \
  "metadata, created_ms, last_ms, saved_seq, broken"
#define TM_SAMPLER_COLUMNS "id, session, tenant, base, kind, path, weights"
#define TM_CHECKPOINT_COLUMNS \
  "path, model, tenant, training, name, folder, bytes, time_ms, expires_ms, open, metadata"

SessionRow TakeSession(const Statement& row) {
  return {.id = row.Text(0),
          .tenant = row.Text(1),
          .metadata = row.Text(2),
          .created_ms = row.Int(3),
          .beat_ms = row.Int(4),
          .ended = row.Int(5) != 0};
}

ModelRow TakeModel(const Statement& row) {
  return {.id = row.Text(0),
          .session = row.Text(1),
          .tenant = row.Text(2),
          .base = row.Text(3),
          .rank = row.Int(4),
          .seed = row.Uint(5),
          .attention = row.Int(6) != 0,
          .mlp = row.Int(7) != 0,
          .from = row.Text(8),
          .from_optimizer = row.Int(9) != 0,
          .metadata = row.Text(10),
          .created_ms = row.Int(11),
          .last_ms = row.Int(12),
          .saved_seq = row.Int(13),
          .broken = row.Text(14)};
}

OpRow TakeOp(const Statement& row) {
  return {.model = row.Text(0),
          .seq = row.Uint(1),
          .kind = static_cast<OpKind>(row.Int(2)),
          .body = row.Text(3),
          .failed = row.Int(4) != 0};
}

OpResult TakeResult(const Statement& row) {
  return {.done = row.Int(0) != 0,
          .failed = row.Int(1) != 0,
          .binary = row.Int(2) != 0,
          .body = row.Text(3)};
}

SamplerRow TakeSampler(const Statement& row) {
  return {.id = row.Text(0),
          .session = row.Text(1),
          .tenant = row.Text(2),
          .base = row.Text(3),
          .kind = static_cast<SamplerKind>(row.Int(4)),
          .path = row.Text(5),
          .weights = row.Text(6)};
}

CheckpointRow TakeCheckpoint(const Statement& row) {
  CheckpointRow checkpoint{.path = row.Text(0),
                           .model = row.Text(1),
                           .tenant = row.Text(2),
                           .training = row.Int(3) != 0,
                           .name = row.Text(4),
                           .folder = row.Text(5),
                           .bytes = row.Uint(6),
                           .time_ms = row.Int(7),
                           .expires_ms = std::nullopt,
                           .open = row.Int(9) != 0,
                           .metadata = row.Text(10)};
  if (!row.IsNull(8)) checkpoint.expires_ms = row.Int(8);
  return checkpoint;
}

uint64_t TakeNumber(const Statement& row) {
  return row.Uint(0);
}

std::string TakeText(const Statement& row) {
  return row.Text(0);
}

}  // namespace

Result<std::unique_ptr<Books>> Books::Open(const std::string& path) {
  TM_ASSIGN_OR_RETURN(auto db, Database::Open(path, {}));
  TM_RETURN_IF_ERROR(db->Exec(kTables));
  return std::unique_ptr<Books>(new Books(std::move(db)));
}

Result<Statement*> Books::Prepared(std::string_view sql) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    TM_ASSIGN_OR_RETURN(Statement made, db_->Prepare(sql));
    it = statements_.emplace(std::string(sql), std::move(made)).first;
  }
  return &it->second;
}

template <typename... Args>
Status Books::Run(std::string_view sql, const Args&... args) {
  TM_ASSIGN_OR_RETURN(Statement* const statement, Prepared(sql));
  return statement->With(args...).Run();
}

template <typename Row, typename... Args>
Result<std::vector<Row>> Books::Read(std::string_view sql, Row (*take)(const Statement&),
                                     const Args&... args) {
  TM_ASSIGN_OR_RETURN(Statement* const statement, Prepared(sql));
  statement->With(args...);
  std::vector<Row> rows;
  while (true) {
    TM_ASSIGN_OR_RETURN(const bool more, statement->Next());
    if (!more) return rows;
    rows.push_back(take(*statement));
  }
}

template <typename Row, typename... Args>
Result<std::optional<Row>> Books::ReadOne(std::string_view sql, Row (*take)(const Statement&),
                                          const Args&... args) {
  TM_ASSIGN_OR_RETURN(std::vector<Row> rows, Read(sql, take, args...));
  if (rows.empty()) return std::optional<Row>();
  return std::optional<Row>(std::move(rows.front()));
}

Result<std::string> Books::MakeSession(const SessionRow& session, const std::string& key) {
  MutexLock lock(mutex_);
  const std::optional<std::string> named = key.empty() ? std::nullopt : std::optional(key);
  TM_ASSIGN_OR_RETURN(auto there, ReadOne("SELECT id FROM sessions WHERE tenant = ?1 AND key = ?2",
                                          TakeText, session.tenant, named));
  if (there) return std::move(*there);
  TM_ASSIGN_OR_RETURN(const auto count,
                      ReadOne("SELECT COUNT(*) FROM sessions", TakeNumber));  // none is removed
  const std::string id = "S" + std::to_string(count.value_or(0) + 1);
  TM_RETURN_IF_ERROR(
      Run("INSERT INTO sessions (id, tenant, key, metadata, created_ms, beat_ms) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
          id, session.tenant, named, session.metadata, session.created_ms));
  return id;
}

Result<std::optional<SessionRow>> Books::Session(const std::string& id) {
  MutexLock lock(mutex_);
  return ReadOne("SELECT " TM_SESSION_COLUMNS " FROM sessions WHERE id = ?1", TakeSession, id);
}

Result<std::vector<SessionRow>> Books::Sessions(const std::string& tenant) {
  MutexLock lock(mutex_);
  return Read("SELECT " TM_SESSION_COLUMNS " FROM sessions WHERE tenant = ?1 ORDER BY created_ms",
              TakeSession, tenant);
}

Result<std::vector<SessionRow>> Books::SilentSince(int64_t ms) {
  MutexLock lock(mutex_);
  return Read("SELECT " TM_SESSION_COLUMNS " FROM sessions WHERE ended = 0 AND beat_ms < ?1",
              TakeSession, ms);
}

Status Books::Beat(const std::string& id, int64_t ms) {
  MutexLock lock(mutex_);
  return Run("UPDATE sessions SET beat_ms = ?2 WHERE id = ?1 AND ended = 0", id, ms);
}

Status Books::BeatAll(int64_t ms) {
  MutexLock lock(mutex_);
  return Run("UPDATE sessions SET beat_ms = ?1 WHERE ended = 0", ms);
}

Status Books::EndSession(const std::string& id) {
  MutexLock lock(mutex_);
  TM_RETURN_IF_ERROR(db_->Exec("BEGIN"));
  Status status = Run("UPDATE sessions SET ended = 1 WHERE id = ?1", id);
  if (status.ok()) {
    status = Run("DELETE FROM ops WHERE model IN (SELECT id FROM models WHERE session = ?1)", id);
  }
  if (status.ok()) status = Run("DELETE FROM samplers WHERE session = ?1", id);
  if (status.ok()) status = db_->Exec("COMMIT");
  if (!status.ok()) db_->Rollback();
  return status;
}

Result<bool> Books::AddModel(const ModelRow& model, const std::string& body) {
  MutexLock lock(mutex_);
  TM_RETURN_IF_ERROR(db_->Exec("BEGIN"));
  Status status = Run("INSERT OR IGNORE INTO models (" TM_MODEL_COLUMNS
                      ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
                      model.id, model.session, model.tenant, model.base, model.rank, model.seed,
                      model.attention, model.mlp, model.from, model.from_optimizer, model.metadata,
                      model.created_ms, model.last_ms, model.saved_seq, model.broken);
  const bool added = status.ok() && db_->Changes() > 0;
  if (added) {
    status = Run("INSERT INTO ops (model, seq, kind, body) VALUES (?1, 0, ?2, ?3)", model.id,
                 static_cast<int>(OpKind::kCreate), BlobRef{body});
  }
  if (status.ok()) status = db_->Exec("COMMIT");
  if (!status.ok()) {
    db_->Rollback();
    return status;
  }
  return added;
}

Result<std::optional<ModelRow>> Books::Model(const std::string& id) {
  MutexLock lock(mutex_);
  return ReadOne("SELECT " TM_MODEL_COLUMNS " FROM models WHERE id = ?1", TakeModel, id);
}

Result<std::vector<ModelRow>> Books::Models(const std::string& tenant) {
  MutexLock lock(mutex_);
  return Read("SELECT " TM_MODEL_COLUMNS " FROM models WHERE tenant = ?1 ORDER BY last_ms DESC, id",
              TakeModel, tenant);
}

Result<std::vector<ModelRow>> Books::ModelsOf(const std::string& session) {
  MutexLock lock(mutex_);
  return Read("SELECT " TM_MODEL_COLUMNS " FROM models WHERE session = ?1 ORDER BY id", TakeModel,
              session);
}

Result<std::vector<ModelRow>> Books::LivingModels() {
  MutexLock lock(mutex_);
  return Read("SELECT " TM_MODEL_COLUMNS
              " FROM models WHERE session IN (SELECT id FROM sessions WHERE ended = 0) ORDER BY id",
              TakeModel);
}

Result<bool> Books::Unmade(const std::string& model) {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(
      const auto failed,
      ReadOne("SELECT failed FROM ops WHERE model = ?1 AND seq = 0", TakeNumber, model));
  return failed.value_or(0) != 0;
}

Status Books::SetSaved(const std::string& model, int64_t seq) {
  MutexLock lock(mutex_);
  TM_RETURN_IF_ERROR(db_->Exec("BEGIN"));
  Status status = Run("UPDATE models SET saved_seq = ?2 WHERE id = ?1", model, seq);
  // What was asked is only needed to do it again.
  if (status.ok()) {
    status =
        Run("UPDATE ops SET body = x'' WHERE model = ?1 AND seq <= ?2 AND done = 1", model, seq);
  }
  if (status.ok()) status = db_->Exec("COMMIT");
  if (!status.ok()) db_->Rollback();
  return status;
}

Status Books::Touch(const std::string& model, int64_t ms) {
  MutexLock lock(mutex_);
  return Run("UPDATE models SET last_ms = ?2 WHERE id = ?1", model, ms);
}

Result<bool> Books::AddOp(const OpRow& op) {
  MutexLock lock(mutex_);
  TM_RETURN_IF_ERROR(
      Run("INSERT OR IGNORE INTO ops (model, seq, kind, body) VALUES (?1, ?2, ?3, ?4)", op.model,
          op.seq, static_cast<int>(op.kind), BlobRef{op.body}));
  return db_->Changes() > 0;
}

Result<std::optional<OpRow>> Books::Op(const std::string& model, uint64_t seq) {
  MutexLock lock(mutex_);
  return ReadOne("SELECT model, seq, kind, body, failed FROM ops WHERE model = ?1 AND seq = ?2",
                 TakeOp, model, seq);
}

Status Books::FinishOp(const std::string& model, uint64_t seq, const OpResult& result,
                       const std::string& broken, int64_t now_ms) {
  MutexLock lock(mutex_);
  TM_RETURN_IF_ERROR(db_->Exec("BEGIN"));
  Status status =
      Run("UPDATE ops SET done = 1, failed = ?3, binary = ?4, result = ?5, done_ms = ?6 "
          "WHERE model = ?1 AND seq = ?2",
          model, seq, result.failed, result.binary, BlobRef{result.body}, now_ms);
  if (status.ok()) {
    status =
        Run("UPDATE models SET broken = ?2, last_ms = ?3 WHERE id = ?1", model, broken, now_ms);
  }
  if (status.ok()) status = db_->Exec("COMMIT");
  if (!status.ok()) db_->Rollback();
  return status;
}

Result<std::optional<OpResult>> Books::ResultOf(const std::string& model, uint64_t seq) {
  MutexLock lock(mutex_);
  return ReadOne(
      "SELECT done, failed, binary, result FROM ops WHERE model = ?1 AND seq = ?2 "
      "AND (done = 0 OR result IS NOT NULL)",
      TakeResult, model, seq);
}

Result<Books::Waiting> Books::WaitingOps(const std::string& model) {
  MutexLock lock(mutex_);
  Waiting waiting;
  TM_ASSIGN_OR_RETURN(
      const auto next,
      ReadOne("SELECT IFNULL(MAX(seq) + 1, 0) FROM ops WHERE model = ?1 AND done = 1", TakeNumber,
              model));
  waiting.next = next.value_or(0);
  TM_ASSIGN_OR_RETURN(
      waiting.seqs,
      Read("SELECT seq FROM ops WHERE model = ?1 AND done = 0 ORDER BY seq", TakeNumber, model));
  return waiting;
}

Result<std::vector<OpRow>> Books::DoneSince(const std::string& model, int64_t seq) {
  MutexLock lock(mutex_);
  return Read(
      "SELECT model, seq, kind, body, failed FROM ops WHERE model = ?1 AND seq > ?2 AND done = 1 "
      "AND (kind = ?3 OR failed = 0 AND kind IN (?4, ?5)) ORDER BY seq",
      TakeOp, model, seq, static_cast<int>(OpKind::kStep), static_cast<int>(OpKind::kTrain),
      static_cast<int>(OpKind::kLoad));
}

Result<uint64_t> Books::BytesSince(const std::string& model, int64_t seq) {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(const auto bytes,
                      ReadOne("SELECT IFNULL(SUM(LENGTH(body)), 0) FROM ops WHERE model = ?1 "
                              "AND seq > ?2 AND done = 1",
                              TakeNumber, model, seq));
  return bytes.value_or(0);
}

Result<uint64_t> Books::WaitingBytes(const std::string& model) {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(const auto bytes,
                      ReadOne("SELECT IFNULL(SUM(LENGTH(body)), 0) FROM ops WHERE model = ?1 "
                              "AND done = 0",
                              TakeNumber, model));
  return bytes.value_or(0);
}

Status Books::ForgetResults(int64_t before_ms) {
  MutexLock lock(mutex_);
  return Run("UPDATE ops SET result = NULL WHERE result IS NOT NULL AND done_ms < ?1", before_ms);
}

Result<bool> Books::AddSampler(const SamplerRow& sampler) {
  MutexLock lock(mutex_);
  TM_RETURN_IF_ERROR(Run("INSERT OR IGNORE INTO samplers (" TM_SAMPLER_COLUMNS
                         ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                         sampler.id, sampler.session, sampler.tenant, sampler.base,
                         static_cast<int>(sampler.kind), sampler.path, sampler.weights));
  return db_->Changes() > 0;
}

Result<std::optional<SamplerRow>> Books::Sampler(const std::string& id) {
  MutexLock lock(mutex_);
  return ReadOne("SELECT " TM_SAMPLER_COLUMNS " FROM samplers WHERE id = ?1", TakeSampler, id);
}

Result<std::vector<SamplerRow>> Books::SamplersOf(const std::string& session) {
  MutexLock lock(mutex_);
  return Read("SELECT " TM_SAMPLER_COLUMNS " FROM samplers WHERE session = ?1 ORDER BY rowid",
              TakeSampler, session);
}

Status Books::DropSampler(const std::string& id) {
  MutexLock lock(mutex_);
  return Run("DELETE FROM samplers WHERE id = ?1", id);
}

Status Books::PutCheckpoint(const CheckpointRow& row) {
  MutexLock lock(mutex_);
  return Run("INSERT OR REPLACE INTO checkpoints (" TM_CHECKPOINT_COLUMNS
             ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
             row.path, row.model, row.tenant, row.training, row.name, row.folder, row.bytes,
             row.time_ms, row.expires_ms, row.open, row.metadata);
}

Result<std::optional<CheckpointRow>> Books::Checkpoint(const std::string& path) {
  MutexLock lock(mutex_);
  return ReadOne("SELECT " TM_CHECKPOINT_COLUMNS " FROM checkpoints WHERE path = ?1",
                 TakeCheckpoint, path);
}

Result<std::vector<CheckpointRow>> Books::Checkpoints(const std::string& tenant,
                                                      const std::string& model) {
  MutexLock lock(mutex_);
  return Read(
      "SELECT " TM_CHECKPOINT_COLUMNS
      " FROM checkpoints WHERE tenant = ?1 AND (?2 = '' OR model = ?2) ORDER BY time_ms, path",
      TakeCheckpoint, tenant, model);
}

Result<std::vector<CheckpointRow>> Books::ExpiredBy(int64_t ms) {
  MutexLock lock(mutex_);
  return Read("SELECT " TM_CHECKPOINT_COLUMNS " FROM checkpoints WHERE expires_ms <= ?1",
              TakeCheckpoint, ms);
}

Status Books::DropCheckpoint(const std::string& path) {
  MutexLock lock(mutex_);
  return Run("DELETE FROM checkpoints WHERE path = ?1", path);
}

}  // namespace tidemill
