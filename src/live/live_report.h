// A report on stored sessions for people: how many turns and tokens, what is trained and why the
// rest is not.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/status.h"
#include "live/settle.h"
#include "store/run_db.h"

namespace tidemill {

struct SessionReport {
  v1::Session session{};
  uint64_t turns = 0;      // answers that are stored
  uint64_t questions = 0;  // a retry is none
  // Of a session that is open: as if it closed now.
  Settlement settled{};
};

// kCorrupt: a turn does not fit the others.
Result<SessionReport> ReportSession(const StoredSession& stored);

// Sums over sessions.
struct LiveReport {
  struct Agent {
    uint64_t sessions = 0;
    uint64_t turns = 0;
    uint64_t sampled = 0;
    uint64_t trained = 0;
    uint64_t branches = 0;
    uint64_t rewritten = 0;
  };
  uint64_t open = 0;
  uint64_t closed = 0;
  uint64_t questions = 0;
  Agent all{};
  std::map<std::string, uint64_t> tokens{};  // by reason; "trained"
  std::map<std::string, Agent> agents{};     // by name

  void Add(const SessionReport& session);
};

}  // namespace tidemill
