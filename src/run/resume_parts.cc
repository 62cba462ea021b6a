#include "run/resume_parts.h"
#include "core/fate.h"

#include <algorithm>
#include <map>

namespace tidemill {

void AddResumed(const ResumeState& resumed, DispatcherOptions& dispatch) {
  dispatch.next_group = resumed.next_group;
  for (const ResumeState::Outstanding& group : resumed.outstanding)
    dispatch.outstanding.push_back(group.group);
  for (const v1::GroupLease& group : resumed.to_reissue)
    dispatch.reissue.push_back(group.task().id());
  std::map<uint64_t, v1::GroupReport> in_replay;  // accepted groups that are not used up
  for (const ResumeState::Stored& stored : resumed.trajectories) {
    if (!stored.issued) continue;
    v1::GroupReport& report = in_replay[stored.trajectory.id().group()];
    report.set_group(stored.trajectory.id().group());
    report.set_revision(stored.revision);
    report.set_accepted(stored.trajectory.group_members());
    report.set_uses(std::max(report.uses(), stored.uses));
  }
  for (const ResumeState::Outstanding& group : resumed.outstanding)
    in_replay.erase(group.group.group());
  for (auto& [group, report] : in_replay) dispatch.in_replay.push_back(std::move(report));
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
