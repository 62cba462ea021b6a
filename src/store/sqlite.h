// SQLite in the terms of this project: a Database owns a connection, a Statement is prepared once
// and run often, and every failure is a Status that names the file.
//
//   statement.With(task, group).Run()            write
//   statement.With(task); while (*statement.Next()) statement.Text(0)     read
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tidemill {

// A blob to bind. Not copied: must live until the statement has run.
struct BlobRef {
  std::string_view bytes;
};

// Belongs to one thread at a time, and must not outlive its Database.
class Statement {
 public:
  Statement(sqlite3* db, sqlite3_stmt* statement, const std::string* path);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Starts over with these arguments for ?1, ?2, ..
  template <typename... Args>
  Statement& With(const Args&... args) {
    Reset();
    (Add(args), ...);
    return *this;
  }
  // For statements put together at run time: one argument more.
  void Add(std::string_view text);
  void Add(const std::string& text) { Add(std::string_view(text)); }
  void Add(const char* text) { Add(std::string_view(text)); }
  void Add(BlobRef blob);
  void Add(double value);
  void Add(std::nullptr_t);
  template <std::integral T>
  void Add(T value) {
    AddInteger(static_cast<int64_t>(value));
  }
  template <typename T>
  void Add(const std::optional<T>& value) {
    if (value) {
      Add(*value);
    } else {
      Add(nullptr);
    }
  }

  // Runs to the end and resets, whatever rows there are.
  Status Run();
  // The next row; false: there are no more, and the statement has been reset.
  Result<bool> Next();
  void Reset();

  // Columns of the row Next() gave, from 0. A view lives until the next call of Next, Run or Reset.
  int64_t Int(int column) const;
  uint64_t Uint(int column) const { return static_cast<uint64_t>(Int(column)); }
  double Double(int column) const;
  std::string_view Bytes(int column) const;
  std::string Text(int column) const { return std::string(Bytes(column)); }
  bool IsNull(int column) const;

 private:
  void AddInteger(int64_t value);
  void Note(int rc);

  sqlite3* db_;
  sqlite3_stmt* statement_;
  const std::string* path_;
  int bound_ = 0;
  int bind_error_ = 0;
};

// A connection. Belongs to one thread at a time.
class Database {
 public:
  enum class Mode { kWrite, kRead };
  struct Options {
    Mode mode = Mode::kWrite;
    int busy_timeout_ms = 5000;  // how long to wait for another process's lock
    std::string vfs;             // SQLite's file layer by name; empty: the operating system
  };
  // kWrite makes the file if there is none; kRead wants it there.
  static Result<std::unique_ptr<Database>> Open(const std::string& path, const Options& options);
  ~Database();

  Status Exec(const char* sql);
  Result<Statement> Prepare(std::string_view sql);
  // One integer: of a PRAGMA, of a count.
  Result<int64_t> Integer(const char* sql);

  bool InTransaction() const;
  // Rolls back what is open, if anything is.
  void Rollback();
  // Rows changed by the statement that ran last.
  int64_t Changes() const;
  int64_t LastRowId() const;
  const std::string& path() const { return path_; }

 private:
  Database(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}

  sqlite3* db_;
  std::string path_;
};

// Runs `sql` with the arguments and calls `take` for each row until one fails.
template <typename Take, typename... Args>
Status ForEachRow(Database& db, std::string_view sql, Take take, const Args&... args) {
  TM_ASSIGN_OR_RETURN(Statement statement, db.Prepare(sql));
  statement.With(args...);
  while (true) {
    TM_ASSIGN_OR_RETURN(const bool more, statement.Next());
    if (!more) return Ok();
    TM_RETURN_IF_ERROR(take(statement));
  }
}

// kUnavailable: the disk (full, failing, not writable) or a lock of somebody else; the same may
// work later. kCorrupt: the file is damaged or no database. kInvalid: the row breaks a rule.
// kInternal: our SQL.
Status SqliteFailure(sqlite3* db, int rc, const std::string& path);

}  // namespace tidemill
