// The real loops over simulated ports, a failing bus and a store that loses what it had not synced,
// with workers that crash and come back. A seed decides everything; the same seed replays the same
// run.
//
//   RunSimulation(seed) -> ok, or the first promise that was broken
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>

namespace tidemill::sim {

// Mistakes that can be planted, to prove that the checkers find them.
enum class Bug {
  kNone,
  kAcknowledgeBeforeInsert,  // a trajectory is acknowledged before it is durable
  kLeaseNotExtended,         // long work loses its lease
  kDroppedKeepsCredit,       // a dropped episode does not give its credit back
  kGateOffByOne,             // one step more than allowed is issued
  kVersionReused,            // a resume gives a version number again
  kSampledTooOften,          // the limit of samples to inserts is not kept
  kDeadScorerIsZero,         // a scorer that cannot be reached counts as a zero
  kTokenNotChecked,          // anybody may send trajectories of any group
  kBoundsNotChecked,         // ids outside the vocabulary are let in
  kTrainedThroughBranches,   // a turn is trained in every branch that contains it
  kLostBoxIsAResult,         // an agent whose box was lost counts as one that failed
  kRetryIsANewTurn,          // a request that is sent again is another question
  kDeletedIsTrained,         // what waits for a batch is not told of a deletion
  kOwedCaseForgotten,        // a crash between a verdict and its case loses the case
  kCaseOfAnotherTenant,      // a session is shown what other tenants' sessions were about
  kFailedKeyIsAKey,          // a prompt that could not be read has a key all the same
  kPinnedIsSwapped,          // an answer that is pinned to a version is drawn from the newest
  kFailedVoteIsZero,         // a judge's vote that failed counts as a zero
  kHeldBackForever,          // a grading that waits for its turn never gets it
  kDeliveredTwice,           // a background call's result is delivered again
  kDeliveredToAnother,       // a result goes to another episode
  kDeliveredAfterEnd,        // a result is taken when the episode is over
  kCancelledIsCharged,       // a cancelled call counts as one that ran
  kTrainedUnderAnother,      // a policy's batch goes to another policy's trainer
  kVersionOfAnother,         // a policy's tokens are drawn from another policy's version
  kRoleOfAnother,            // a role's turns are drawn from another role's policy
  kAwayTeacherAgrees,        // a teacher that is away counts as one that is certain of every token
};

struct SimOptions {
  uint64_t seed = 1;
  Bug bug = Bug::kNone;
  bool trace = false;
  // This tool fails on our side every time; empty: none. What then is told to the agent (skip) or
  // makes the episode stale.
  std::string broken_tool = {};
  bool skip_unavailable = false;
  bool forger = false;  // one of the workers lies in any case, not only where the seed says so
};

struct SimReport {
  uint64_t seed = 0;
  bool ok = false;
  std::string failure;    // the first promise that was broken
  uint64_t steps = 0;     // of the learner
  uint64_t policies = 0;  // that were trained
  uint64_t crashes = 0;
  uint64_t resumes = 0;       // of the learner's process
  uint64_t trajectories = 0;  // stored
  uint64_t rescored = 0;      // verdicts that replaced another
  uint64_t stale = 0;         // trajectories kept and never trained on
  uint64_t skipped = 0;       // tool calls given up on, the agent told
  uint64_t retries = 0;       // of tool calls, in what was stored
  uint64_t background = 0;    // calls that went on in the background, in what was stored
  uint64_t delivered = 0;     // of these, with their result told
  uint64_t interrupted = 0;   // turns that a result ended
  uint64_t refused = 0;       // trajectories and verdicts of a forger
  uint64_t client_turns = 0;  // of sessions, stored
  uint64_t client_retries = 0;
  uint64_t client_branches = 0;
  uint64_t client_deletions = 0;  // of sessions
  uint64_t releases = 0;          // of another version
  uint64_t loop_steps = 0;
  double virtual_seconds = 0;
  std::map<std::string, uint64_t> faults;  // what was done to it, by kind
  // Hashes of the orders that kInterleaved steps of loops and events had, one behind the other.
  std::unordered_set<uint64_t> interleavings;
};

constexpr int kInterleaved = 6;

SimReport RunSimulation(const SimOptions& options);

}  // namespace tidemill::sim
