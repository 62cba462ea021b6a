// Replay keeps finished episodes: durable first, then scored, then chosen for training, whole
// groups.
//
//   replay.trajectories -> store -> ack -> reward.score -> verdict -> group complete -> buffer ->
//   Batch                                                        `-> dispatch.reports (credit)
//
// When a scorer's version rises, the groups of the buffer whose rewards vary most are scored again;
// their verdicts change in place.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "core/journal.h"
#include "core/loop.h"
#include "proto/tidemill.pb.h"
#include "replay/group_buffer.h"
#include "replay/staleness.h"
#include "store/store_port.h"
#include "tasks/task_book.h"

namespace tidemill {

struct ReplayOptions {
  std::string worker = "local";
  StalenessBound staleness;
  BufferOptions buffer;            // which groups, how often, how many
  bool drop_zero_variance = true;  // a group whose rewards are all equal teaches nothing
  uint32_t max_score_outstanding = 4096;
  Duration score_patience =
      std::chrono::minutes(10);  // a verdict that takes longer was lost; asked again
  uint32_t score_tries = 3;      // after this many the trajectory is stale
  uint32_t max_turn_tokens = 0;  // for length rewards: what a turn could have had
  uint32_t store_capacity = 65536;
  // The groups that vary most, scored again when a scorer's version rises; 0: none.
  uint32_t rescore_groups = 64;
  uint32_t rescore_at_once = 8;                     // groups
  std::map<std::string, uint32_t> scorer_versions;  // by scorer, of this run's scorers
  std::map<uint64_t, uint64_t> versions;  // version -> step, of the run so far, when resumed
  Duration lease_period =
      std::chrono::seconds(10);  // how often leases are prolonged while the store writes
  // When draining, everything on the topic is taken in first, because nobody else will. False where
  // the topic outlives this process.
  bool empty_topic = true;
};

// A trajectory read back when a run is resumed.
struct StoredSample {
  v1::Trajectory trajectory;
  std::optional<v1::Verdict> verdict;
  uint32_t uses = 0;
  bool stale = false;     // never to be trained on
  uint32_t revision = 0;  // of the ledger's newest report on its group
};

// Read from any thread.
struct ReplayCounters {
  std::atomic<uint64_t> received{0};
  std::atomic<uint64_t> duplicates{0};
  std::atomic<uint64_t> stored{0};
  std::atomic<uint64_t> scored{0};
  std::atomic<uint64_t> solved{0};
  std::atomic<uint64_t> stale{0};    // ours failed: kept, never trained on
  std::atomic<uint64_t> too_old{0};  // over the staleness bound when a batch was made
  std::atomic<uint64_t> masked_tokens{0};
  std::atomic<uint64_t> zero_variance{0};  // episodes of groups without a difference
  std::atomic<uint64_t> evicted{0};        // episodes of groups that had to make room
  std::atomic<uint64_t> used{0};
  std::atomic<uint64_t> rescored{0};        // verdicts replaced after a scorer's version rose
  std::atomic<uint64_t> rescore_failed{0};  // the old verdict stayed
  std::atomic<uint64_t> ready_episodes{0};
  std::atomic<uint64_t> waiting_verdicts{0};
};

class ReplayLoop final : public Loop {
 public:
  // The buffer's options must be valid (GroupBuffer::Make).
  ReplayLoop(Bus& bus, StorePort& store, const Clock& clock, Journal& journal,
             const TaskBook& tasks, ReplayOptions options, std::vector<StoredSample> stored = {});

  std::string_view name() const override { return "replay"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // What rollout has finished is still taken in and stored; nothing else is asked for.
  void Drain() override { draining_ = true; }
  bool Drained() const override;

  const ReplayCounters& counters() const { return counters_; }

 private:
  struct Member {
    v1::Trajectory trajectory;
    std::optional<v1::Verdict> verdict;
    bool stale = false;  // never trained on
    uint32_t score_tries = 0;
    std::string asked;        // id of the score request that is out; empty: none
    bool storing = false;     // its answer came and is being written
    Time ask_again = kNever;  // when its verdict counts as lost
  };
  struct Group {
    v1::Purpose purpose = v1::PURPOSE_TRAIN;
    uint32_t size = 0;
    uint32_t revision = 0;  // of the last report
    uint32_t uses = 0;      // steps that used it
    bool complete = false;
    bool in_buffer = false;
    std::map<uint32_t, Member> members;
  };
  // What a submitted op is for.
  struct Pending {
    enum Kind { kTrajectory, kVerdict, kRecord } kind = kRecord;
    v1::Trajectory trajectory;
    v1::Verdict verdict;
  };
  // The rewards of a group's members that may be trained on.
  struct Spread {
    size_t usable = 0;
    bool same = true;
    double deviation = 0;
  };

  void Restore(std::vector<StoredSample> stored);
  void TakeTrajectories(Time now);
  void TakeVerdicts(Time now);
  void TakeStored(Time now);
  void OnTrajectoryStored(Pending& pending, const Status& status, Time now);
  void OnVerdictStored(const v1::Verdict& verdict);
  void CompleteIfDone(uint64_t group_id);
  void Drop(uint64_t group_id, const std::string& fate, bool reissue);
  void Forget(uint64_t group_id);
  void Report(uint64_t group_id, Group& group, bool accepted, bool reissue,
              const std::string& reason);
  void MarkStale(Member& member, const std::string& reason);
  void RecordFate(const v1::TrajectoryId& id, const std::string& fate, const std::string& reason);
  static Spread SpreadOf(const Group& group);
  bool TeachesNothing(const Group& group, const Spread& spread) const {
    return options_.drop_zero_variance && group.size > 1 && spread.same;
  }
  // Returns the tag under which the answer comes.
  uint64_t Submit(StoreOp op, Pending pending);

  // replay_scores.cc: asking for verdicts, the first time and again.
  void AskForVerdict(uint64_t group, uint32_t member, Time now);
  void AskAgain(Time now);
  void NoteVersions(const v1::Verdict& verdict);
  bool Outdated(const Member& member) const;
  void ChooseForRescoring();
  void RescoreNext(Time now);
  static bool Replaces(const v1::Verdict& verdict, const v1::Verdict& before);
  void FinishRescoring(uint64_t group_id);

  // replay_batch.cc
  void TakeBatchRequests();
  bool TryMakeBatch();
  bool Usable(uint64_t group_id, const v1::BatchRequest& request);
  void AddSamples(const Group& group, uint32_t uses, v1::Batch& batch);

  Bus& bus_;
  StorePort& store_;
  const Clock& clock_;
  Journal& journal_;
  const TaskBook& tasks_;
  ReplayOptions options_;
  std::string inbox_;
  Outbox outbox_;
  LeaseKeeper leases_;  // by tag, of messages the store is writing
  std::unordered_map<uint64_t, Group> groups_;
  GroupBuffer buffer_;                             // complete groups of training
  std::unordered_map<uint64_t, Pending> pending_;  // by tag, waiting for the store
  uint64_t next_tag_ = 1;
  VersionSteps versions_;
  std::optional<v1::BatchRequest> request_;  // the learner's, until it can be met
  std::optional<std::pair<uint64_t, std::string>> last_batch_;  // step and Batch sent last
  std::map<std::string, uint32_t> scorer_versions_;             // the highest seen
  bool version_rose_ = false;
  std::deque<uint64_t> to_rescore_;  // those that vary most first
  std::set<uint64_t> rescoring_;     // a verdict of a member is asked for
  Time next_ask_ = Time::min();
  bool draining_ = false;
  ReplayCounters counters_;
};

}  // namespace tidemill
