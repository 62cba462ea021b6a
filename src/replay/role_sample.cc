#include "replay/role_sample.h"

#include <algorithm>

namespace tidemill {
namespace {

void KeepTurns(const v1::Trajectory& whole, const v1::Verdict& verdict, const std::string& role,
               v1::Sample& sample) {
  v1::Trajectory& own = *sample.mutable_trajectory();
  own = whole;
  own.clear_turns();
  sample.mutable_verdict()->clear_turn_rewards();
  for (int t = 0; t < whole.turns_size(); ++t) {
    if (whole.turns(t).role() != role) continue;
    v1::Turn& turn = *own.add_turns();
    turn = whole.turns(t);
    // The first turn of the episode has its prompt there, of another role in itself.
    if (own.turns_size() == 1 && turn.prompt_ids_size() > 0) {
      *own.mutable_prompt_ids() = turn.prompt_ids();
      turn.clear_prompt_ids();
    }
    if (t < verdict.turn_rewards_size()) {
      sample.mutable_verdict()->add_turn_rewards(verdict.turn_rewards(t));
    }
  }
}

}  // namespace

bool HasRole(const v1::Trajectory& trajectory, const std::string& role) {
  const auto& turns = trajectory.turns();
  return std::any_of(turns.begin(), turns.end(),
                     [&](const v1::Turn& turn) { return turn.role() == role; });
}

double RewardOf(const v1::Verdict& verdict, const std::string& role) {
  for (const v1::RoleReward& one : verdict.by_role()) {
    if (one.role() == role) return one.reward();
  }
  return verdict.reward();
}

std::optional<v1::Sample> RoleSample(const ReplayMember& member, const std::string& role) {
  if (!role.empty() && !HasRole(member.trajectory, role)) return std::nullopt;
  v1::Sample sample;
  *sample.mutable_verdict() = *member.verdict;
  *sample.mutable_teacher() = {member.teacher.begin(), member.teacher.end()};
  sample.set_role(role);
  if (role.empty()) {
    *sample.mutable_trajectory() = member.trajectory;
    return sample;
  }
  KeepTurns(member.trajectory, *member.verdict, role, sample);
  sample.mutable_verdict()->set_reward(RewardOf(*member.verdict, role));
  return sample;
}

}  // namespace tidemill
