// All sessions of a run that are in memory: which of them a request belongs to, which requests are
// retries, what is stored, when a session closes. No I/O, no clock, no threads: what is to be
// stored comes out as SessionOps, and a turn counts once Stored says that it is durable.
//
//   Open(question) -> Plan -> (prompt is built) -> Begin(prompt) -> Finish | Abandon -> SessionOps
//   -> Stored;   CloseIdle -> SessionOps
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/number_range.h"
#include "core/status.h"
#include "gateway/turn_recorder.h"
#include "live/live_counters.h"
#include "live/prompt_builder.h"
#include "live/redaction.h"
#include "live/session.h"
#include "live/session_cases.h"
#include "live/session_store.h"
#include "live/settle.h"
#include "store/run_db.h"
#include "store/store_port.h"

namespace tidemill {

struct LiveOptions {
  milliseconds idle{30 * 60 * 1000};   // a session without requests for so long is closed
  size_t max_sessions = 10'000;        // in memory; above it the one idle for longest goes
  size_t max_bytes = size_t{2} << 30;  // of all sessions in memory, roughly
  uint32_t max_turns = 4'000;          // of one session; the next request is refused
  NumberRange sessions = kClientSessions;
  NumberRange tickets = kClientTickets;
  // Patterns of texts that are not stored. Shared: LiveRecorder uses it, too. Null: everything is.
  std::shared_ptr<const Redaction> redaction{};
};

// A request's messages without their secrets, and these.
struct CleanMessages {
  WireJson messages{};
  SecretSet secrets{};
};

// A prompt as it may be stored.
struct CleanPrompt {
  std::vector<TokenId> ids{};
  uint32_t redacted = 0;       // secrets in it
  std::vector<TokenId> end{};  // its last tokens as they are: a secret may go on in the answer
};

// The ids a request is answered from.
struct LivePlan {
  uint64_t ticket = 0;
  uint64_t session = 0;
  std::string session_name{};
  WireJson messages{};  // to render: those known as they were first sent
  std::vector<KnownAnswer> answers{};
  std::string cases{};     // of memory, in every prompt of the session; empty: none
  int64_t started_ms = 0;  // of the session: the day on its prompts
};

struct LiveStores {
  std::vector<SessionOp> ops{};
  // Of a turn among them, which Stored() must be told about.
  uint64_t session = 0;
  uint32_t turn = 0;  // 0: none, there is nothing to wait for
  // A request of a session that was deleted ended: whose it was.
  std::string erased_tenant{};
};

// Not thread-safe.
class SessionTable {
 public:
  // The counters must outlive it.
  SessionTable(const LiveOptions& options, uint64_t first_number, LiveCounters& counters)
      : options_(options),
        counters_(counters),
        new_sessions_(options.sessions, first_number),
        new_tickets_(options.tickets) {}

  // A session from an earlier process. kCorrupt: a turn does not fit; those before it are
  // kept.
  Status Restore(const StoredSession& stored);

  // kFull: the session has as many turns as it may. `note`: what a session that begins with this is
  // shown of memory; it is the same for all of its prompts.
  Result<LivePlan> Open(const TurnQuestion& question, CleanMessages clean,
                        const CasesNote& note = {});
  // The prompts the engine is given, one for each of the request's.
  void Begin(uint64_t ticket, std::vector<CleanPrompt> prompts);
  // The request cannot be answered: as if it had not come.
  void Forget(uint64_t ticket);

  // The choice is complete, or was given up: `cut`.
  LiveStores Finish(const RecordedTurn& turn, bool cut, const PromptBuilder& builder,
                    int64_t wall_ms);
  // The outcome of a Finish. Not ok: the turn is gone.
  LiveStores Stored(uint64_t session, uint32_t turn, const Status& status, int64_t wall_ms);

  // Closes what was idle for too long or is too much.
  LiveStores CloseIdle(int64_t wall_ms);
  // Closes a session with a reason, at once or when its last request is done. kNotFound: it is not
  // in memory, or closed.
  Result<LiveStores> Close(uint64_t session, const std::string& reason, int64_t wall_ms);

  struct Place {
    uint64_t session = 0;  // 0: there is none of the tenant in memory
    uint32_t turn = 0;     // 0: the session
  };
  // The session that the tenant names so ("s17" is number 17), open or closed.
  Place FindNamed(const std::string& tenant, const std::string& name) const;
  // The answer to a request.
  Place FindAnswer(const std::string& tenant, const std::string& request_id, uint32_t choice) const;
  // Drops sessions, open ones too: what comes for them later is neither stored nor counted. Their
  // numbers.
  std::vector<uint64_t> Erase(const std::function<bool(const v1::Session&)>& which);
  bool Erased(uint64_t session) const { return erased_.contains(session); }

  size_t open() const { return open_; }        // sessions that are not closed
  const Session* Find(uint64_t number) const;  // nullptr: it is not in memory
  void ForEach(const std::function<void(const Session&)>& visit) const;
  // Called with what each close decided.
  std::function<void(const Session&, const Settlement&)> on_close;

 private:
  struct Question {
    std::string body_hash;
    int open = 0;              // requests that a client waits for
    bool answered = false;     // one of them came to its end
    bool unconfirmed = false;  // by an earlier process: nobody knows whether the client saw the end
  };
  struct Pending {
    v1::SessionTurn record;
    uint64_t ticket = 0;
  };
  struct Entry {
    std::unique_ptr<Session> session;
    std::map<uint32_t, Question> questions;
    std::map<uint32_t, Pending> pending;  // on their way to the store, by turn
    int open = 0;                         // requests under way
    int64_t active_ms = 0;
    bool stored = false;  // the store has its record
    std::string closing;  // the reason it is to be closed for when its requests are done
  };
  struct Ticket {
    uint64_t session = 0;
    std::vector<uint32_t> questions;  // one for each prompt
    std::string tenant, request_id, body_hash, side;
    std::vector<CleanPrompt> prompts;
    WireJson messages;  // without secrets
    SecretSet secrets;
    SessionMatch match;
    bool tools = false, end = false;
    bool left = false;   // its client waits no more: it is not open for its questions
    int choices = 1;     // for each prompt
    int waited_for = 1;  // choices that were not reported, or not stored
    int64_t started_ms = 0;
  };

  struct Resolved {
    Entry* entry = nullptr;
    uint32_t question = 0;  // of a retry; 0: it is none
  };
  Resolved Resolve(const TurnQuestion& question, const LiveConversation& conversation,
                   const CasesNote& note);
  static uint64_t Own(const std::string& tenant, uint64_t key);
  Entry* ByPrefix(const std::string& tenant, const LiveConversation& conversation);
  std::optional<Resolved> ByRetry(const TurnQuestion& question, const std::string& name);
  Entry& NewSession(const TurnQuestion& question, const std::string& name,
                    const std::string& named_by, const CasesNote& note);
  void Reopen(Entry& entry);
  std::string CleanName(const std::string& name) const;
  v1::SessionTurn RecordOf(const Ticket& ticket, const RecordedTurn& turn, bool cut,
                           const PromptBuilder& builder, int64_t wall_ms) const;
  // Takes what is secret out of the record; of its prompt, too.
  void Redact(const Ticket& ticket, const CleanPrompt& before, const PromptBuilder& builder,
              std::vector<TokenId>& prompt, v1::SessionTurn& record) const;
  void Index(const Session& session, const LiveTurn& turn);
  // No client waits for the request any more.
  void Leave(Ticket& ticket);
  // One choice less is waited for; the last one ends the request.
  void DoneWith(uint64_t ticket, LiveStores& stores, int64_t wall_ms);
  void CloseNow(Entry& entry, std::string reason, LiveStores& stores, int64_t wall_ms);
  void Evict(uint64_t number);

  const LiveOptions options_;
  LiveCounters& counters_;
  NumberSource new_sessions_;
  NumberSource new_tickets_;
  size_t open_ = 0;
  std::map<uint64_t, Entry> sessions_;
  std::set<uint64_t> erased_;  // since the process began
  std::unordered_map<uint64_t, Ticket> tickets_;
  std::map<std::pair<std::string, std::string>, uint64_t> by_name_;  // tenant, name
  // Tenant and body -> session, question: the newest of that body.
  std::map<std::pair<std::string, std::string>, std::pair<uint64_t, uint32_t>> by_body_;
  // Chain keys of conversations with an answer, and without their last answer; keys of answers.
  std::unordered_multimap<uint64_t, uint64_t> by_conversation_, by_question_, by_answer_;
  std::unordered_map<std::string, uint64_t> by_request_;  // request id -> session
};

}  // namespace tidemill
