// The readers' side of the gateway's sessions in run.db, for people: while a run goes on, or after
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "store/run_db.h"

namespace tidemill {

class Database;

// A session without its turns.
struct SessionRow {
  v1::Session session;
  uint64_t turns = 0;
  uint64_t questions = 0;
  uint64_t tokens = 0;      // sampled
  int64_t finished_ms = 0;  // of its last turn; 0: it has none
  uint64_t signals = 0;
  std::optional<double> reward{};  // of its trajectories; none: nothing was scored
  uint64_t used = 0;               // of its trajectories, in a step
};

// A trajectory that a session gave, and what became of it.
struct SessionUse {
  std::string task;
  uint32_t member = 0;
  std::string fate, fate_reason;
  std::optional<double> reward{};
  uint64_t step = 0;            // that used it; 0: none
  std::vector<uint32_t> turns;  // SessionTurn.turn
};

struct SessionFilter {
  std::optional<std::string> tenant;
  bool open_only = false;
};

// Belongs to one thread at a time.
class SessionReader {
 public:
  // kInvalid: the run was written before there were sessions.
  static Result<std::unique_ptr<SessionReader>> Open(const std::string& path);
  ~SessionReader();

  // The newest first, at most `limit`; those that were deleted are not there.
  Result<std::vector<SessionRow>> List(const SessionFilter& filter, size_t limit);
  // kNotFound: no such session.
  Result<StoredSession> Read(uint64_t number);
  // The signals on it, in their order.
  Result<std::vector<v1::Signal>> Signals(uint64_t number);
  Result<std::vector<SessionUse>> Uses(uint64_t number);

 private:
  explicit SessionReader(std::unique_ptr<Database> db);
  std::unique_ptr<Database> db_;
};

// kNotFound: no such session. kCorrupt: its row is damaged.
Result<StoredSession> ReadStoredSession(Database& db, uint64_t number);

}  // namespace tidemill
