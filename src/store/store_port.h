// The run's database as a port: what a loop wants kept, and word when it is durable.
//
//   Submit(op, tag) -> [queue] -> one transaction for many -> sync -> StoreDone(tag)
//
// An op is durable when its StoreDone says ok, never before. Ops take effect in the order
// submitted. Every op is keyed, so that submitting it twice changes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/fate.h"
#include "core/mailbox.h"
#include "core/status.h"
#include "proto/session.pb.h"
#include "proto/skills.pb.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// Key: task, group, member. kExists if that member is stored already, by this attempt or another.
struct PutTrajectory {
  v1::Trajectory trajectory;
};
// Key: trajectory; a later one replaces it.
struct PutVerdict {
  v1::Verdict verdict;
};
// What became of a trajectory. Shown, counted, never deleted.
struct PutFate {
  v1::TrajectoryId id;
  Fate fate = Fate::kStored;
  std::string reason;
};
// Whose a step or a version is, in a run of several policies.
struct PolicyStep {
  std::string policy = {};            // as in messages: empty: the default policy
  std::optional<uint64_t> step = {};  // the policy's own steps; nothing: those of the run
};
// A step of the learner and what it used; each use counts once per step.
struct PutStep {
  uint64_t step = 0;     // of the run: steps done after it, of all policies
  uint64_t version = 0;  // published by it
  std::vector<v1::TrajectoryId> used;
  std::string metrics_json;
  PolicyStep of = {};
};
// An evaluation: the tasks attempted once under one name, with what the learner had learned then.
struct GroupEvaluation {
  uint64_t number = 0;  // of its first group
  uint64_t step = 0;    // the learner's when it began
  uint32_t tasks = 0;   // how many groups it has when all are issued
};
// A group was issued; the ledger from which a resume knows what is outstanding. Key: group.
struct PutGroup {
  v1::GroupLease group;  // its task with the id only
  std::string cursor;    // where the dispatcher's order of tasks stands after issuing it
  std::optional<GroupEvaluation> evaluation = {};  // that it belongs to
};
// The newest report on a group.
struct PutGroupReport {
  v1::GroupReport report;
};
// Gives a policy version number that was never given before in this run: StoreDone::version.
struct ReserveVersion {
  uint64_t step = 0;  // of the run
  PolicyStep of = {};
};
// A checkpoint of this step exists at `path`. Kept relative to the run's folder where it lies
// there.
struct PutCheckpoint {
  uint64_t step = 0;
  uint64_t version = 0;
  std::string path;
};

// A session of the gateway as it is now. Key: number. With it, or not at all, the trajectories that
// its close gives; those that are stored already stay as they are.
struct PutSession {
  v1::Session session;
  std::vector<v1::Trajectory> trajectories;
};
// An answer in a session that is stored. Key: session, turn. kExists: there is one.
struct PutSessionTurn {
  v1::SessionTurn turn;
};

// What a source says of a session that is stored. Key: session, turn, span, source, by; a later one
// replaces it. kNotFound: no such session, or turn.
struct PutSignal {
  v1::Signal signal;
};

// A case of memory, by the episode it came from. Key: task, group, member. kExists: there is one,
// or there was and it was erased. StoreDone::version is its number.
struct PutCase {
  v1::CaseRecord record;
};
// Takes the content of every case that has all of what is said here; at least one must be. Only the
// keys stay, so that the same episodes give no case again.
struct EraseCases {
  uint64_t number = 0;
  uint64_t session = 0;
  std::string tenant = {};
  std::string scope = {};
  std::string task = {};
};

// What became of the repository of skills. Key: the lesson's. kExists: there is one of that key, and
// the repository is as it was. StoreDone::version is its number.
struct PutSkillLesson {
  v1::SkillLesson lesson;
};

// Which version a run serves; replaces what was stored before.
struct PutRelease {
  v1::ReleaseState state;
};

using StoreOp = std::variant<PutTrajectory, PutVerdict, PutFate, PutStep, PutGroup, PutGroupReport,
                             ReserveVersion, PutCheckpoint, PutSession, PutSessionTurn, PutSignal,
                             PutCase, EraseCases, PutSkillLesson, PutRelease>;

struct StoreDone {
  uint64_t tag = 0;
  Status status;
  uint64_t version = 0;  // for ReserveVersion; for PutCase and PutSkillLesson: its number
};

// One client's view of the store: its own mailbox. Submissions of one client keep their order;
// those of several clients are durable in groups.
class StorePort {
 public:
  virtual ~StorePort() = default;
  virtual void Submit(StoreOp op, uint64_t tag) = 0;
  virtual Mailbox<StoreDone>& events() = 0;
};

}  // namespace tidemill
