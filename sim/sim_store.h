// A store that syncs late and loses what it had not synced when its process dies.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "replay/replay_loop.h"
#include "rollout/dispatcher.h"
#include "sim/world.h"
#include "store/run_db.h"
#include "store/store_port.h"

namespace tidemill::sim {

struct StoreFaults {
  bool acknowledge_before_sync = false;  // planted bug
  bool reuse_versions = false;           // planted bug: a crash forgets which versions were given
  double slow_sync = 0.05;               // chance that a sync takes seconds
};

struct SimTrajectory {
  v1::Trajectory trajectory;
  std::optional<v1::Verdict> verdict;
  Fate fate = Fate::kStored;
  std::set<uint64_t> uses;  // steps of the surviving line
};

struct SimGroup {
  v1::GroupLease lease;
  std::optional<v1::GroupReport> report;
};

// The part that survives a crash.
struct SimDurable {
  using EpisodeKey = std::pair<uint64_t, uint32_t>;  // group, member
  std::map<EpisodeKey, SimTrajectory> trajectories;
  std::map<uint64_t, v1::CaseRecord> cases;      // by number
  std::map<uint64_t, std::string> case_tenants;  // of all cases of sessions, erased ones too
  uint64_t last_case = 0;
  std::set<EpisodeKey> case_keys;
  std::map<uint64_t, SimGroup> groups;
  std::map<uint64_t, uint64_t> steps;        // step -> version
  std::map<uint64_t, uint64_t> checkpoints;  // step -> version
  std::map<uint64_t, uint64_t> versions;     // reserved version -> the step it is for
  std::string cursor;
  uint64_t next_version = 1;
  std::map<uint64_t, StoredSession> sessions;
  std::vector<v1::Trajectory> live;                     // that closed sessions gave
  std::map<std::string, v1::Verdict> live_verdicts;     // by LiveKey
  std::map<std::string, std::set<uint64_t>> live_uses;  // steps, by LiveKey
  std::map<std::string, v1::Signal> signals;            // by what replaces what
  uint64_t live_steps = 0;
  std::set<uint64_t> erased;  // sessions that were deleted
};

// A trajectory of a session: one session may be closed several times.
std::string LiveKey(const v1::TrajectoryId& id);

class SimStore {
 public:
  SimStore(World& world, ProcessId process, StoreFaults faults, uint32_t max_uses)
      : world_(world), process_(process), faults_(faults), max_uses_(max_uses) {}

  std::unique_ptr<StorePort> NewClient();
  // The process died: what was not synced is gone.
  void Crash();
  // Makes what later steps used unused again.
  void ResumeFrom(uint64_t step);
  // A version number, durable at once: used while a process starts.
  uint64_t ReserveNow(uint64_t step) {
    durable_.versions[durable_.next_version] = step;
    return durable_.next_version++;
  }
  const SimDurable& durable() const { return durable_; }
  // What a new process finds of the gateway's sessions.
  SessionsState Sessions() const;
  LiveState Live() const;
  // Nothing waits to be synced.
  bool idle() const { return queue_.empty() && !syncing_; }
  // A session is deleted, with what it gave; durable at once, whether it is stored or under way.
  void Erase(uint64_t session);
  // Verdicts that replaced another.
  uint64_t rescored() const { return rescored_; }
  bool Holds(const v1::TrajectoryId& id) const {
    return durable_.trajectories.count({id.group(), id.member()}) != 0;
  }
  // Steps of the surviving line that used the group.
  uint32_t UsesOf(uint64_t group) const;
  // Called when a group of training becomes durable, before it is issued.
  std::function<void(const v1::GroupLease&)> on_group;
  // Called with everything that becomes durable, in its order.
  std::function<void(const StoreOp&)> on_durable;
  // Called with every trajectory that becomes durable.
  std::function<void(const v1::Trajectory&)> on_trajectory;

 private:
  class Client;
  struct Queued {
    StoreOp op;
    uint64_t tag;
    Client* client;
  };
  void Enqueue(StoreOp op, uint64_t tag, Client* client);
  void Sync();
  StoreDone Apply(const StoreOp& op, uint64_t tag);
  void KeepReport(const v1::GroupReport& report, SimGroup& group);
  void PutInPlace(const v1::Verdict& verdict, SimTrajectory& stored);
  Status Keep(const PutSession& put);
  Status Keep(const PutSessionTurn& put);
  Status Keep(const PutSignal& put);
  Status Keep(const PutCase& put, uint64_t& number);
  Status KeepSessionCase(const v1::CaseRecord& record);
  bool IsLive(const v1::TrajectoryId& id) const;
  // A step that used trajectories of sessions.
  void KeepLiveStep(const PutStep& put);
  void KeepLiveVerdict(const v1::Verdict& verdict);

  World& world_;
  ProcessId process_;
  StoreFaults faults_;
  uint32_t max_uses_;
  SimDurable durable_;
  std::deque<Queued> queue_;
  bool syncing_ = false;
  uint64_t rescored_ = 0;
};

}  // namespace tidemill::sim
