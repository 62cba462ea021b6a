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
    if (report.credits().empty()) {
      *report.mutable_credits() = stored.report.credits();
      // Those of steps that no longer count are none.
      for (v1::PolicyCredit& credit : *report.mutable_credits()) credit.clear_uses();
    }
    for (v1::PolicyCredit& credit : *report.mutable_credits()) {
      const auto used = stored.uses_of.find(credit.policy());
      const uint32_t uses = used == stored.uses_of.end() ? 0 : used->second;
      credit.set_uses(std::max(uses, credit.uses()));
    }
    const auto policies = PoliciesOfTurns(stored.trajectory, dispatch.policies);
    if (policies.ok() && !policies->empty()) drawn_by[report.group()] = policies->front();
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
    StoredSample sample{.trajectory = std::move(stored.trajectory),
                        .verdict = std::move(stored.verdict),
                        .uses = stored.uses,
                        .uses_of = std::move(stored.uses_of),
                        .stale = !FateIsLive(stored.fate),
                        .revision = stored.revision,
                        .unusable = std::move(stored.unusable),
                        .issued = stored.issued};
    for (const v1::PolicyCredit& credit : stored.report.credits()) {
      if (credit.dropped() > 0) sample.dropped_of.push_back(credit.policy());
    }
    samples.push_back(std::move(sample));
  }
  resumed.trajectories.clear();
  return samples;
}

}  // namespace tidemill
