#include "run/resume_parts.h"
#include "core/fate.h"

#include <algorithm>
#include <map>

namespace tidemill {

void AddResumed(const ResumeState& resumed, DispatcherOptions& dispatch) {
  dispatch.next_group = resumed.next_group;
  for (const ResumeState::Outstanding& group : resumed.outstanding)
    dispatch.outstanding.push_back(group.group);
  for (const v1::GroupLease& group : resumed.to_reissue) {
    const auto policy = dispatch.policies.Find(group.policy());
    if (policy.ok()) dispatch.reissue.emplace_back(*policy, group.task().id());
  }
  std::map<uint64_t, v1::GroupReport> in_replay;  // accepted groups that are not used up
  std::map<uint64_t, PolicyId> drawn_by;
  for (const ResumeState::Stored& stored : resumed.trajectories) {
    if (!stored.issued) continue;
    v1::GroupReport& report = in_replay[stored.trajectory.id().group()];
    report.set_group(stored.trajectory.id().group());
    report.set_revision(stored.revision);
    report.set_accepted(stored.trajectory.group_members());
    report.set_uses(std::max(report.uses(), stored.uses));
    const auto policy = PolicyOf(stored.trajectory, dispatch.policies);
    if (policy.ok() && *policy) drawn_by[report.group()] = **policy;
  }
  for (const ResumeState::Outstanding& group : resumed.outstanding)
    in_replay.erase(group.group.group());
  for (auto& [group, report] : in_replay) {
    dispatch.in_replay.emplace_back(drawn_by[group], std::move(report));
  }
}

std::vector<StoredSample> TakeSamples(ResumeState& resumed) {
  std::vector<StoredSample> samples;
  for (ResumeState::Stored& stored : resumed.trajectories) {
    samples.push_back({std::move(stored.trajectory), std::move(stored.verdict), stored.uses,
                       !FateIsLive(stored.fate), stored.revision, std::move(stored.unusable),
                       stored.issued});
  }
  resumed.trajectories.clear();
  return samples;
}

}  // namespace tidemill
