#include "store/run_db.h"

#include "store/op_writer.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace tidemill {

RunDb::RunDb(std::unique_ptr<Database> db, const Clock& clock)
    : clock_(clock), db_(std::move(db)) {}

RunDb::~RunDb() = default;

Result<std::unique_ptr<RunDb>> RunDb::Open(const std::string& path, const Clock& clock) {
  return Open(path, clock, Options());
}

Result<std::unique_ptr<RunDb>> RunDb::Open(const std::string& path, const Clock& clock,
                                           const Options& options) {
  Database::Options how;
  how.busy_timeout_ms = options.busy_timeout_ms;
  how.vfs = options.vfs;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Database> db, Database::Open(path, how));
  // page_size counts only while the file is empty: a body of 2,000 tokens fits into two pages. FULL
  // syncs the log at every commit, which is what makes an acknowledged op durable.
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA page_size = 8192"));
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA journal_mode = WAL"));
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA synchronous = FULL"));
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA cache_size = -32768"));
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA wal_autocheckpoint = 4096"));
  TM_RETURN_IF_ERROR(db->Exec("PRAGMA journal_size_limit = 67108864"));
  if (options.max_pages > 0) {
    const std::string limit = "PRAGMA max_page_count = " + std::to_string(options.max_pages);
    TM_RETURN_IF_ERROR(db->Exec(limit.c_str()));
  }
  TM_RETURN_IF_ERROR(Migrate(*db, RunDbMigrations()));
  std::unique_ptr<RunDb> run(new RunDb(std::move(db), clock));
  run->writer_ = std::make_unique<OpWriter>(*run->db_, clock);
  TM_RETURN_IF_ERROR(run->writer_->Prepare());
  return run;
}

const std::string& RunDb::path() const {
  return db_->path();
}

Result<std::vector<RunDb::Outcome>> RunDb::Apply(std::span<const StoreOp* const> ops) {
  std::vector<Outcome> outcomes;
  outcomes.reserve(ops.size());
  TM_RETURN_IF_ERROR(db_->Exec("BEGIN IMMEDIATE"));
  for (const StoreOp* op : ops) {
    uint64_t version = 0;
    Status status = writer_->Write(*op, version);
    // What the disk or the file's state forbids one op it forbids all; the rest is between this op
    // and us.
    const bool shared = status.code() == Code::kUnavailable || status.code() == Code::kCorrupt;
    if (shared || !db_->InTransaction()) {
      db_->Rollback();
      return status;
    }
    outcomes.push_back({std::move(status), version});
  }
  Status committed = db_->Exec("COMMIT");
  if (!committed.ok()) {
    db_->Rollback();
    return committed;
  }
  return outcomes;
}

Status RunDb::ApplyOne(const StoreOp& op) {
  const StoreOp* ops[] = {&op};
  TM_ASSIGN_OR_RETURN(auto outcomes, Apply(ops));
  return outcomes[0].status;
}

Status RunDb::Compact() {
  TM_RETURN_IF_ERROR(db_->Exec("VACUUM"));
  return db_->Exec("PRAGMA wal_checkpoint(TRUNCATE)");
}

Status RunDb::CheckIntegrity() {
  TM_ASSIGN_OR_RETURN(Statement check, db_->Prepare("PRAGMA integrity_check(3)"));
  std::string findings;
  while (true) {
    TM_ASSIGN_OR_RETURN(const bool row, check.Next());
    if (!row) break;
    if (check.Bytes(0) != "ok") findings += (findings.empty() ? "" : "; ") + check.Text(0);
  }
  return findings.empty() ? Ok() : Corrupt(path() + ": the database is damaged: " + findings);
}

}  // namespace tidemill
