// The groups that replay knows: their members, as far as they are stored, and what was said of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
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

// What one policy learns from a group.
struct ReplayPart {
  std::vector<std::string> roles = {""};  // whose turns it drew; without a team: of the only one
  uint32_t uses = 0;                      // steps of the policy that used it
  bool in_buffer = false;
  bool dropped = false;          // its credit returned
  std::set<uint32_t> too_old{};  // members that are left out of it

  // Whether steps may still use it.
  bool live(uint32_t max_uses) const { return !dropped && uses < max_uses; }
};

struct ReplayGroup {
  v1::Purpose purpose = v1::PURPOSE_TRAIN;
  // Of the policies that drew turns of its members and are trained.
  std::map<PolicyId, ReplayPart> parts{};
  uint32_t size = 0;
  uint32_t revision = 0;  // of the last report
  bool complete = false;
  bool accepted = false;  // the dispatcher was told so
  std::map<uint32_t, ReplayMember> members{};

  bool in_buffer() const {
    for (const auto& [policy, part] : parts) {
      if (part.in_buffer) return true;
    }
    return false;
  }
};

// Which member a question is about.
struct MemberOf {
  uint64_t group;
  uint32_t member;
};

// The rewards of a group's members that the part's policy may be trained on. Those of each role are
// compared apart; of several roles: where they differ most.
struct RewardSpread {
  size_t usable = 0;
  bool same = true;
  double deviation = 0;
};
RewardSpread SpreadOf(const ReplayGroup& group, const ReplayPart& part);
// The members that may be trained on at all.
size_t UsableMembers(const ReplayGroup& group);
// How far the votes of judges were apart, at most.
double VoteSpread(const ReplayGroup& group);
// Whether a member that may be trained on has a token that one of the part's roles wrote.
bool HasTokens(const ReplayGroup& group, const ReplayPart& part);

}  // namespace tidemill
