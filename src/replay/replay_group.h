// The groups that replay knows: their members, as far as they are stored, and what was said of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/policy_names.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct ReplayMember {
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

struct ReplayGroup {
  v1::Purpose purpose = v1::PURPOSE_TRAIN;
  // Drew the turns of its members, and learns from them; nothing: no member has a turn.
  std::optional<PolicyId> policy;
  uint32_t size = 0;
  uint32_t revision = 0;  // of the last report
  uint32_t uses = 0;      // steps that used it
  bool complete = false;
  bool in_buffer = false;
  std::map<uint32_t, ReplayMember> members;

  // Whose steps may use it.
  PolicyId learner() const { return policy.value_or(PolicyId::kMain); }
};

// Which member a question is about.
struct MemberOf {
  uint64_t group;
  uint32_t member;
};

// The rewards of a group's members that may be trained on.
struct RewardSpread {
  size_t usable = 0;
  bool same = true;
  double deviation = 0;
};
RewardSpread SpreadOf(const ReplayGroup& group);
// How far the votes of judges were apart, at most.
double VoteSpread(const ReplayGroup& group);
// Whether a member that may be trained on has a token that the model wrote.
bool HasTokens(const ReplayGroup& group);

}  // namespace tidemill
