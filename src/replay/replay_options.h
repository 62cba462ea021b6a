// How replay works, and what a resumed run gives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/message_check.h"
#include "core/policy_versions.h"
#include "proto/tidemill.pb.h"
#include "replay/group_buffer.h"
#include "replay/staleness.h"

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

struct ReplayOptions : ReplayConfig {
  std::string worker = "local";
  uint64_t seed = 1;  // of the groups that are selected at random
  StalenessConfig staleness;
  PolicyNames policies;                                   // of the run
  std::map<PolicyId, StalenessConfig> staleness_of = {};  // of policies with one of their own
  const StalenessConfig& StalenessOf(PolicyId policy) const {
    const auto own = staleness_of.find(policy);
    return own == staleness_of.end() ? staleness : own->second;
  }
  std::map<std::string, PolicyId> roles = {};  // of the team, and who draws them; empty: no team
  std::set<PolicyId> frozen = {};              // policies that nobody trains
  bool drop_untrainable = true;  // a group without a token that the model wrote teaches nothing
  uint32_t max_score_outstanding = 4096;
  Duration score_patience =
      std::chrono::minutes(10);  // a verdict that takes longer was lost; asked again
  uint32_t score_tries = 3;      // after this many the trajectory is stale
  uint32_t max_turn_tokens = 0;  // for length rewards: what a turn could have had
  uint32_t store_capacity = 65536;
  uint32_t rescore_at_once = 8;                     // groups
  std::map<std::string, uint32_t> scorer_versions;  // by scorer, of this run's scorers
  // What the model wrote, as text, for judges of turns; empty: nobody reads it.
  std::function<std::string(std::vector<int32_t>)> turn_text;
  // Where judges compare answers: so many other members go with a request for a verdict, which
  // waits until the group is whole. 0: nobody compares.
  uint32_t compared_with = 0;
  PolicyVersions versions;  // of the run so far
  std::string secret;       // of the run: what tokens are made from
  MessageLimits limits;
  Duration lease_period =
      std::chrono::seconds(10);  // how often leases are prolonged while the store writes
  // When draining, everything on the topic is taken in first, because nobody else will. False where
  // the topic outlives this process.
  bool empty_topic = true;
  size_t live_capacity = 4096;   // trajectories of sessions that wait for a step
  double live_tenant_share = 1;  // at most this share of a batch's is of one tenant
  bool tells_memory = false;     // of every episode of training that has a verdict
  bool tells_skills = false;     // the same
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
  // In a team, instead: of each policy, by name.
  std::map<std::string, uint32_t> uses_of = {};
  std::vector<std::string> dropped_of = {};  // policies whose part of its group was dropped
  bool stale = false;                        // never to be trained on
  uint32_t revision = 0;                     // of the ledger's newest report on its group
  // Why it cannot be used although it is stored; empty: nothing is known against it.
  std::string unusable = {};
  bool issued = true;  // the ledger knows its group
};

}  // namespace tidemill
