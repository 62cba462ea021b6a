#include "store/sqlite.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tidemill {
namespace {

Code CodeOf(int rc) {
  switch (rc & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_PROTOCOL:
      return Code::kUnavailable;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::kCorrupt;
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
      return Code::kInvalid;
    default:
      return Code::kInternal;
  }
}

std::string_view Meaning(int rc) {
  switch (rc & 0xff) {
    case SQLITE_FULL:
      return "no space left for the database";
    case SQLITE_IOERR:
      return "reading or writing the database failed";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another process has locked the database";
    case SQLITE_CANTOPEN:
      return "the database cannot be opened";
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return "the database is not writable";
    case SQLITE_CORRUPT:
      return "the database is damaged; `sqlite3 FILE .recover` may recover some of it";
    case SQLITE_NOTADB:
      return "not an SQLite database, or its first page is damaged";
    default:
      return "the database refused";
  }
}

}  // namespace

Status SqliteFailure(sqlite3* db, int rc, const std::string& path) {
  std::string message = path + ": " + std::string(Meaning(rc)) + " (" + sqlite3_errstr(rc);
  if (db != nullptr) {
    const char* detail = sqlite3_errmsg(db);
    if (std::strcmp(detail, sqlite3_errstr(rc)) != 0) message += std::string(": ") + detail;
    const int system = sqlite3_system_errno(db);
    if ((rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN) {
      if (system != 0) message += std::string("; ") + std::strerror(system);
    }
  }
  return {CodeOf(rc), message + ")"};
}

Statement::Statement(sqlite3* db, sqlite3_stmt* statement, const std::string* path)
    : db_(db), statement_(statement), path_(path) {}

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_),
      statement_(std::exchange(other.statement_, nullptr)),
      path_(other.path_),
      bound_(other.bound_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

void Statement::Note(int rc) {
  if (rc != SQLITE_OK && bind_error_ == SQLITE_OK) bind_error_ = rc;
}

void Statement::Add(std::string_view text) {
  const char* data = text.data() == nullptr ? "" : text.data();
  Note(sqlite3_bind_text64(statement_, ++bound_, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::Add(BlobRef blob) {
  const char* data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
  Note(sqlite3_bind_blob64(statement_, ++bound_, data, blob.bytes.size(), SQLITE_STATIC));
}

void Statement::Add(double value) {
  Note(sqlite3_bind_double(statement_, ++bound_, value));
}
void Statement::Add(std::nullptr_t) {
  Note(sqlite3_bind_null(statement_, ++bound_));
}
void Statement::AddInteger(int64_t value) {
  Note(sqlite3_bind_int64(statement_, ++bound_, value));
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  bound_ = 0;
  bind_error_ = SQLITE_OK;
}

Result<bool> Statement::Next() {
  const int rc = bind_error_ != SQLITE_OK ? bind_error_ : sqlite3_step(statement_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) {
    Reset();
    return false;
  }
  Status failure = SqliteFailure(db_, rc, *path_);
  Reset();
  return failure;
}

Status Statement::Run() {
  while (true) {
    auto more = Next();
    if (!more.ok()) return more.status();
    if (!*more) return Ok();
  }
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(statement_, column);
}
double Statement::Double(int column) const {
  return sqlite3_column_double(statement_, column);
}
bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
std::string_view Statement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string_view()
                         : std::string_view(static_cast<const char*>(data), size);
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path, const Options& options) {
  struct stat info {};
  // SQLite would wait for somebody to write into a pipe.
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Invalid(path + ": not a regular file");
  }
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
  flags |= options.mode == Mode::kWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                        : SQLITE_OPEN_READONLY;
  sqlite3* db = nullptr;
  const char* vfs = options.vfs.empty() ? nullptr : options.vfs.c_str();
  const int rc = sqlite3_open_v2(path.c_str(), &db, flags, vfs);
  if (rc != SQLITE_OK) {
    Status failure = SqliteFailure(db, rc, path);
    sqlite3_close_v2(db);
    return failure;
  }
  sqlite3_extended_result_codes(db, 1);
  sqlite3_busy_timeout(db, options.busy_timeout_ms);
  return std::unique_ptr<Database>(new Database(db, path));
}

Database::~Database() {
  const int rc = sqlite3_close(db_);
  TM_CHECK(rc == SQLITE_OK, "a statement outlived its database");
}

Status Database::Exec(const char* sql) {
  const int rc = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? Ok() : SqliteFailure(db_, rc, path_);
}

Result<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int rc = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                    SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (rc != SQLITE_OK) return SqliteFailure(db_, rc, path_);
  return Statement(db_, statement, &path_);
}

Result<int64_t> Database::Integer(const char* sql) {
  TM_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  TM_ASSIGN_OR_RETURN(const bool row, statement.Next());
  if (!row) return NotFound(path_ + ": no row for " + sql);
  return statement.Int(0);
}

bool Database::InTransaction() const {
  return sqlite3_get_autocommit(db_) == 0;
}

void Database::Rollback() {
  if (InTransaction()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

int64_t Database::Changes() const {
  return sqlite3_changes64(db_);
}
int64_t Database::LastRowId() const {
  return sqlite3_last_insert_rowid(db_);
}

}  // namespace tidemill
