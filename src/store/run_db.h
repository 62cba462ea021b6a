// The writer's side of run.db: the one truth for trajectories, verdicts and which step used what.
//
//   ops -> Apply (one transaction, synced) -> outcomes;   crash -> ResumeFrom(step) ->
//   LoadForResume
//
// Readers have run_reader.h. docs/store.md describes the tables.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "store/store_port.h"

namespace tidemill {

class Database;
class OpWriter;

struct CheckpointRecord {
  uint64_t step = 0;
  uint64_t version = 0;
  std::string path;
  int64_t at_ms = 0;
};

// What the loops need to go on where the run stopped.
struct ResumeState {
  struct Stored {
    v1::Trajectory trajectory;
    std::optional<v1::Verdict> verdict;  // none: still to be scored
    uint32_t uses = 0;
    std::map<std::string, uint32_t> uses_of = {};  // of each policy, by its name as in messages
    v1::GroupReport report = {};                   // the newest on its group
    std::string fate;
    uint32_t revision = 0;  // of the newest report on its group; 0: none yet
    // Why it cannot be used; then of the trajectory only id, purpose and group_members are there.
    std::string unusable = {};
    bool issued = true;  // the ledger knows its group
  };
  struct Outstanding {
    v1::GroupLease group;
    v1::GroupReport report = {};                // the newest; revision 0: none yet
    std::vector<uint32_t> stored_members = {};  // whose trajectories are here already
  };
  struct Version {
    uint64_t version = 0;
    std::string policy;        // as in messages
    uint64_t policy_step = 0;  // its own step that the version was reserved for
  };
  // Of purpose TRAIN and of groups that are neither used up nor dropped, in the order they were
  // stored. Whole groups: members that must not be trained on have a fate that is not live.
  std::vector<Stored> trajectories;
  // Issued, but accepted + dropped is less than their members; by group.
  std::vector<Outstanding> outstanding;
  // Their newest report is final and says to attempt the task again, and no later group of the same
  // task and purpose was issued; by group.
  std::vector<v1::GroupLease> to_reissue;
  uint64_t next_group = 1;
  uint64_t next_version = 1;
  std::string cursor;  // of the newest group that had one
  // The highest version of each scorer in the newest verdicts.
  std::map<std::string, uint32_t> scorer_versions;
  uint64_t last_step = 0;
  uint64_t last_version = 0;  // published by last_step; 0: no step was done
  uint64_t accepted = 0;      // over all groups of purpose TRAIN, by their newest reports
  uint64_t dropped = 0;
  std::optional<CheckpointRecord> checkpoint;  // the newest of the line that lives
  std::vector<Version> versions;               // all that were reserved, by number
  // The steps of each policy, by its name as in messages, of the line that lives.
  std::map<std::string, uint64_t> policy_steps;
};

// A session with its turns, by number. A turn that cannot be read ends them: what is behind it may
// stand on it.
struct StoredSession {
  v1::Session session;
  std::vector<v1::SessionTurn> turns;
  std::string damage = {};  // what could not be read; empty: nothing
};

struct SessionsState {
  std::vector<StoredSession> sessions;  // open ones, and those closed not long ago; by number
  uint64_t next_number = 1;
};

// A trajectory that a session gave. Of one that was used only what names it and its turns is there.
struct StoredLive {
  v1::Session session;
  v1::Trajectory trajectory;
  bool usable = false;  // it was not used, and nothing is known against it
};

// What learning from sessions goes on with.
struct LiveState {
  std::vector<StoredLive> trajectories;  // the oldest first
  std::vector<v1::Signal> signals;       // by session
};

// What memory goes on with.
struct CasesState {
  struct Learned {
    uint64_t number = 0;
    v1::CaseRecord record;
  };
  // An episode of training with a verdict that never became a case.
  struct Scored {
    v1::Trajectory trajectory;
    v1::Verdict verdict;
  };
  std::vector<Learned> cases;     // by number
  std::vector<Scored> unlearned;  // in the order they were stored
};

// What the repository of skills goes on with.
struct SkillsState {
  struct Learned {
    uint64_t number = 0;
    v1::SkillLesson lesson;
  };
  std::vector<Learned> lessons;  // by number
  // Episodes of training with a verdict, of groups that gave no lesson; in the order stored.
  std::vector<CasesState::Scored> untaught;
};

// Belongs to one thread at a time. One process writes a run: RunDirectory's lock sees to that.
class RunDb {
 public:
  struct Options {
    int busy_timeout_ms = 5000;
    std::string vfs;        // SQLite's file layer by name; empty: the operating system
    int64_t max_pages = 0;  // 0: as many as the disk holds
  };
  struct Outcome {
    Status status;
    uint64_t version = 0;  // for ReserveVersion
  };

  // Makes the database, or brings an older one to today's schema. kInvalid: of a newer program, or
  // not ours. kCorrupt: damaged.
  static Result<std::unique_ptr<RunDb>> Open(const std::string& path, const Clock& clock,
                                             const Options& options);
  static Result<std::unique_ptr<RunDb>> Open(const std::string& path, const Clock& clock);
  ~RunDb();

  // All ops in one transaction, in order, durable on return; one outcome for each. An op that is
  // wrong in itself fails alone. Failure of the whole: nothing was applied. kUnavailable: try again
  // later.
  Result<std::vector<Outcome>> Apply(std::span<const StoreOp* const> ops);
  // One op on its own; its outcome's status.
  Status ApplyOne(const StoreOp& op);

  // As it was stored last; nothing: the run never released anything.
  Result<std::optional<v1::ReleaseState>> LoadRelease();

  // Goes back to the weights of `step`: what later steps used becomes unused and "ready" again;
  // those steps, their uses and checkpoints stay on record as abandoned. Version numbers stay
  // taken. kInvalid: `step` was never done.
  Status ResumeFrom(uint64_t step);
  Result<ResumeState> LoadForResume(uint32_t max_uses);
  // For the gateway to go on with its sessions: the open ones, and those closed after
  // `closed_since_ms`, the newest `closed_max` of them.
  Result<SessionsState> LoadSessions(int64_t closed_since_ms, size_t closed_max);
  // The newest `max` trajectories of sessions, and the signals on these and on open sessions.
  Result<LiveState> LoadLive(size_t max);
  // Every case, and what a process that ended too early owes memory. What cannot be read is left
  // out.
  Result<CasesState> LoadCases();
  // Every lesson, and the episodes that an earlier process made none of. What cannot be read of
  // these is left out; a lesson that cannot be read is kCorrupt: what is behind it stands on it.
  Result<SkillsState> LoadSkills();

  // Rewrites the file and empties the log, so that nothing of what was erased is left in them.
  Status Compact();
  // Reads every page: kCorrupt with SQLite's first findings. Takes seconds on a large run.
  Status CheckIntegrity();
  const std::string& path() const;

 private:
  RunDb(std::unique_ptr<Database> db, const Clock& clock);

  const Clock& clock_;
  std::unique_ptr<Database> db_;
  std::unique_ptr<OpWriter> writer_;  // its statements go before the database
};

}  // namespace tidemill
