// Replay keeps finished episodes: durable first, then scored, then chosen for training, whole
// groups.
//
//   replay.trajectories -> store -> ack -> reward.score -> verdict -> group complete -> buffer ->
//   Batch                                                        `-> dispatch.reports (credit)
//
// With a teacher, a group is complete once teacher.requests has been answered as well.
// When a scorer's version rises, the groups of the buffer whose rewards vary most are scored again;
// their verdicts change in place.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "bus/questions.h"
#include "core/counters.h"
#include "core/journal.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "proto/tidemill.pb.h"
#include "replay/group_buffer.h"
#include "replay/live_pool.h"
#include "replay/staleness.h"
#include "store/store_port.h"
#include "tasks/task_book.h"

namespace tidemill {

// What a teacher reads before it scores a turn.
enum class TeacherHints : uint8_t {
  kNone,    // what the policy had read; every turn is scored
  kErrors,  // the turn itself and the error that followed it
  kJudge,   // the turn itself and the longest reason for which a judge calls it bad
  // The same with the reason after which the teacher's scores of the turn change most.
  kJudgeStrongest,
};
// The hint is in the verdict, so the teacher is asked after it.
inline bool FromJudge(TeacherHints hints) {
  return hints == TeacherHints::kJudge || hints == TeacherHints::kJudgeStrongest;
}

struct ReplayOptions {
  std::string worker = "local";
  StalenessBound staleness;
  BufferOptions buffer;            // which groups, how often, how many
  bool drop_zero_variance = true;  // a group whose rewards are all equal teaches nothing
  bool drop_untrainable = true;    // nor does one without a token that the model wrote
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
  // What the model wrote, as text, for judges of turns; empty: nobody reads it.
  std::function<std::string(std::vector<int32_t>)> turn_text;
  // Where judges compare answers: so many other members go with a request for a verdict, which
  // waits until the group is whole. 0: nobody compares.
  uint32_t compared_with = 0;
  std::map<uint64_t, uint64_t> versions;  // version -> step, of the run so far; the newest is used
  std::string secret;                     // of the run: what tokens are made from
  MessageLimits limits;
  Duration lease_period =
      std::chrono::seconds(10);  // how often leases are prolonged while the store writes
  // When draining, everything on the topic is taken in first, because nobody else will. False where
  // the topic outlives this process.
  bool empty_topic = true;
  size_t live_capacity = 4096;   // trajectories of sessions that wait for a step
  double live_tenant_share = 1;  // at most this share of a batch's is of one tenant
  bool tells_memory = false;     // of every episode of training that has a verdict
  bool teacher = false;          // episodes of training are used with the scores of a teacher
  TeacherHints hints = TeacherHints::kNone;
  // With a judge's hints: the words as the model would read them behind its turn, its next turn
  // opened.
  std::function<std::vector<int32_t>(const v1::Task&, const std::string& hint)> hint_ids;
};

// A trajectory read back when a run is resumed.
struct StoredSample {
  v1::Trajectory trajectory;
  std::optional<v1::Verdict> verdict;
  uint32_t uses = 0;
  bool stale = false;     // never to be trained on
  uint32_t revision = 0;  // of the ledger's newest report on its group
  // Why it cannot be used although it is stored; empty: nothing is known against it.
  std::string unusable = {};
  bool issued = true;  // the ledger knows its group
};

// Read from any thread.
struct ReplayCounters : CounterSet {
  Counter received{*this,
                   {.key = "episodes_received",
                    .metric = "tidemill_trajectories_received_total",
                    .help = "Trajectories received"}};
  Counter duplicates{*this,
                     {.key = "duplicates",
                      .metric = "tidemill_trajectories_duplicate_total",
                      .help = "Duplicate trajectories refused"}};
  Counter refused{*this,
                  {.key = "refused",
                   .metric = "tidemill_replay_refused_total",
                   .help = "Trajectories and verdicts refused: dead letters"}};
  Counter stored{*this,
                 {.key = "episodes_stored",
                  .metric = "tidemill_trajectories_stored_total",
                  .help = "Trajectories stored"}};
  Counter scored{*this,
                 {.key = "scored",
                  .metric = "tidemill_episodes_scored_total",
                  .help = "Episodes with a verdict"}};
  Counter unscored{*this,
                   {.key = "unscored",
                    .metric = "tidemill_episodes_unscored_total",
                    .help = "Episodes whose scorers failed after their retries"}};
  Counter solved{
      *this,
      {.key = "solved", .metric = "tidemill_episodes_solved_total", .help = "Episodes solved"}};
  Counter stale{*this,
                {.key = "stale",
                 .metric = "tidemill_stale_total",
                 .help = "Episodes that failed because of the system; kept, never trained on"}};
  Counter too_old{*this,
                  {.key = "too_old",
                   .metric = "tidemill_too_old_total",
                   .help = "Episodes over the staleness bound when a batch was made"}};
  Counter masked_tokens{*this,
                        {.key = "masked_tokens",
                         .metric = "tidemill_masked_tokens_total",
                         .help = "Tokens masked because they were too old"}};
  Counter zero_variance{*this,
                        {.key = "zero_variance",
                         .metric = "tidemill_episodes_zero_variance_total",
                         .help = "Episodes in groups whose rewards are all equal"}};
  Counter untrainable{*this,
                      {.key = "untrainable",
                       .metric = "tidemill_episodes_untrainable_total",
                       .help = "Episodes in groups without a token to train"}};
  Counter evicted{*this,
                  {.key = "evicted",
                   .metric = "tidemill_episodes_evicted_total",
                   .help = "Episodes of groups evicted from a full buffer"}};
  Counter used{
      *this,
      {.key = "used", .metric = "tidemill_episodes_used_total", .help = "Episodes used in a step"}};
  Counter rescored{*this,
                   {.key = "rescored",
                    .metric = "tidemill_rescored_total",
                    .help = "Verdicts replaced after a scorer's version rose"}};
  Counter rescore_failed{*this,
                         {.key = "rescore_failed",
                          .metric = "tidemill_rescore_failed_total",
                          .help = "Rescorings that failed; the old verdict stands"}};
  Counter ready_episodes{*this,
                         {.key = "ready_episodes",
                          .metric = "tidemill_replay_ready_episodes",
                          .help = "Episodes ready for a batch",
                          .kind = Counter::Kind::kLevel}};
  Counter waiting_verdicts{*this,
                           {.key = "waiting_verdicts",
                            .metric = "tidemill_replay_waiting_verdicts",
                            .help = "Episodes without a verdict yet",
                            .kind = Counter::Kind::kLevel}};
  Counter waiting_teacher{*this,
                          {.key = "waiting_teacher",
                           .metric = "tidemill_replay_waiting_teacher",
                           .help = "Episodes without the scores of the teacher yet",
                           .kind = Counter::Kind::kLevel}};
  Counter live_received{*this,
                        {.key = "live_received",
                         .metric = "tidemill_live_trajectories_total",
                         .help = "Trajectories of sessions with a signal, received for training"}};
  Counter live_used{*this,
                    {.key = "live_used",
                     .metric = "tidemill_live_trajectories_used_total",
                     .help = "Trajectories of sessions used in a step"}};
  Counter live_too_old{*this,
                       {.key = "live_too_old",
                        .metric = "tidemill_live_trajectories_too_old_total",
                        .help = "Trajectories of sessions dropped over the staleness bound"}};
  Counter live_ready{*this,
                     {.key = "live_ready",
                      .metric = "tidemill_live_trajectories_ready",
                      .help = "Trajectories of sessions that wait for a step",
                      .kind = Counter::Kind::kLevel}};
  Counter live_held_back{*this,
                         {.key = "live_held_back",
                          .metric = "tidemill_live_trajectories_held_back",
                          .help = "Of these, those over their tenant's share while a step waits",
                          .kind = Counter::Kind::kLevel}};
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
    bool excluded = false;  // never trained on: stale, or too old
    uint32_t score_tries = 0;
    // Id of the score request that is out or whose answer is being written; empty: none.
    std::string asked;
    // With a teacher: what it makes of the turns, once `taught` is set.
    std::vector<v1::TurnScores> teacher;
    bool taught = false;
    uint32_t teacher_tries = 0;
    std::string asked_teacher;  // id of the open request; empty: none
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
  // What a question is about.
  struct Asked {
    uint64_t group;
    uint32_t member;
  };
  // The rewards of a group's members that may be trained on.
  struct Spread {
    size_t usable = 0;
    bool same = true;
    double deviation = 0;
  };

  void Restore(std::vector<StoredSample> stored);
  Status CheckStored(const StoredSample& sample) const;
  Status CheckContent(const v1::Trajectory& trajectory) const;
  Status CheckVersions(const v1::Trajectory& trajectory) const;
  void TakeTrajectories(Time now);
  void Refuse(const Lease& lease, const v1::Trajectory& trajectory, const std::string& why);
  void TakeVerdicts(Time now);
  Member* FindMember(uint64_t group, uint32_t member);
  void TakeStored(Time now);
  void OnTrajectoryStored(Pending& pending, const Status& status, Time now);
  void OnVerdictStored(const v1::Verdict& verdict);
  void TellMemory(const Member& member);
  void CompleteIfDone(uint64_t group_id);
  void Drop(uint64_t group_id, const std::string& fate, bool reissue,
            const std::string& reason = "");
  void Forget(uint64_t group_id);
  void Report(uint64_t group_id, Group& group, bool accepted, bool reissue,
              const std::string& reason);
  void MarkStale(Member& member, const std::string& reason);
  void TellUnscored(const v1::Verdict& verdict);
  void RecordFate(const v1::TrajectoryId& id, const std::string& fate, const std::string& reason);
  static Spread SpreadOf(const Group& group);
  bool DroppedAsUseless(uint64_t group_id, const Spread& spread);
  static bool HasTokens(const Group& group);
  // Returns the tag under which the answer comes.
  uint64_t Submit(StoreOp op, Pending pending);

  // replay_scores.cc: asking for verdicts, the first time and again.
  void AskForVerdict(const Asked& about, Time now);
  // Whether verdicts of the group have to wait for its other members.
  bool AwaitsMembers(const Group& group) const {
    return options_.compared_with > 0 && group.members.size() < group.size;
  }
  void OnMember(const Asked& about, Time now);
  void AddPeers(const Group& group, uint32_t member, v1::ScoreRequest& request) const;
  void AskAgain(Time now);
  void OnNoVerdict(const Asked& about, Time now);
  void NoteVersions(const v1::Verdict& verdict);
  bool Outdated(const Member& member) const;
  static double VoteSpread(const Group& group);
  void ChooseForRescoring();
  void RescoreNext(Time now);
  static bool Replaces(const v1::Verdict& verdict, const v1::Verdict& before);
  void FinishRescoring(uint64_t group_id);

  // replay_teacher.cc: asking a teacher for its scores.
  bool NeedsTeacher(const Member& member) const;
  void AskTeacher(const Asked& about, Time now);
  void AddHinted(const Member& member, v1::TeacherRequest& request) const;
  std::vector<std::vector<uint32_t>> HintsFor(const Member& member, int turn) const;
  void AskTeacherAgain(Time now);
  void TakeTaught(Time now);
  void OnTaught(const Asked& about, Member& member, v1::TeacherAnswer answer);

  // replay_batch.cc
  void TakeVersions();
  void TakeBatchRequests();
  void Published(uint64_t version, uint64_t step);
  bool TryMakeBatch();
  bool Usable(uint64_t group_id, const v1::BatchRequest& request);
  void AddSamples(const Group& group, uint32_t uses, v1::Batch& batch);

  // replay_live.cc
  void TakeLive();
  Status CheckLive(const v1::LiveEvent& event) const;
  void SiftLive(const v1::BatchRequest& request);
  void AddLive(uint32_t count, v1::Batch& batch);

  Bus& bus_;
  StorePort& store_;
  const Clock& clock_;
  Journal& journal_;
  const TaskBook& tasks_;
  ReplayOptions options_;
  ReplayCounters counters_;
  Outbox outbox_;
  LeaseKeeper leases_;  // by tag, of messages the store is writing
  std::unordered_map<uint64_t, Group> groups_;
  GroupBuffer buffer_;  // complete groups of training
  LivePool live_;
  std::unordered_map<uint64_t, Pending> pending_;  // by tag, waiting for the store
  uint64_t next_tag_ = 1;
  Questions<Asked> questions_;  // for verdicts
  LaterQueue<Asked> ask_again_;
  Questions<Asked> teacher_questions_;
  LaterQueue<Asked> ask_teacher_;
  VersionSteps versions_;
  uint64_t newest_version_ = 0;
  std::optional<v1::BatchRequest> request_;  // the learner's, until it can be met
  std::optional<std::pair<uint64_t, std::string>> last_batch_;  // step and Batch sent last
  std::map<std::string, uint32_t> scorer_versions_;             // the highest seen
  bool version_rose_ = false;
  std::deque<uint64_t> to_rescore_;  // those that vary most first
  std::set<uint64_t> rescoring_;     // a verdict of a member is asked for
  bool draining_ = false;
};

}  // namespace tidemill
