// Replay keeps finished episodes: durable first, then scored, then chosen for training, whole
// groups.
//
//   replay.trajectories -> ReplayWriter -> ack -> Scoring, Teaching -> GroupBook -> BatchMaker ->
//   Batch                                                                  `-> dispatch.reports
//   (credit) replay.live -> LiveSamples -> BatchMaker
//
// With a teacher, a group is complete once teacher.requests has been answered as well.
// When a scorer's version rises, the groups of the buffer whose rewards vary most are scored again;
// their verdicts change in place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bus/bus.h"
#include "bus/outbox.h"
#include "core/journal.h"
#include "core/loop.h"
#include "core/policy_versions.h"
#include "replay/batch_maker.h"
#include "replay/group_book.h"
#include "replay/live_samples.h"
#include "replay/replay_writer.h"
#include "replay/scoring.h"
#include "replay/teaching.h"
#include "store/store_port.h"
#include "tasks/task_book.h"

namespace tidemill {

class ReplayLoop final : public Loop {
 public:
  // The buffer's options must be valid (GroupBuffer::Make).
  ReplayLoop(Bus& bus, StorePort& store, const Clock& clock, Journal& journal,
             const TaskBook& tasks, ReplayOptions options, std::vector<StoredSample> stored = {});

  std::string_view name() const override { return "replay"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // What rollout has finished is still taken in and stored; nothing else is asked for.
  void Drain() override;
  bool Drained() const override;

  const ReplayCounters& counters() const { return counters_; }

 private:
  void Restore(std::vector<StoredSample> stored);
  void RestorePart(const StoredSample& sample, PolicyId policy, ReplayPart& part) const;
  Status CheckContent(const v1::Trajectory& trajectory) const;
  void TakeVersions();
  void TakeTrajectories(Time now);
  void Refuse(const Lease& lease, const v1::Trajectory& trajectory, const std::string& why);
  void TakeWritten(Time now);
  void OnStored(v1::Trajectory trajectory, Time now);
  void OnStored(const v1::Verdict& verdict);
  void TellMemory(const ReplayMember& member);

  Bus& bus_;
  const ReplayOptions options_;
  ReplayCounters counters_;
  Outbox outbox_;
  ReplayWriter writer_;
  GroupBook book_;
  PolicyVersions versions_;
  const ReplayParts parts_;  // of all of these
  Scoring scoring_;
  Teaching teaching_;
  LiveSamples live_;
  BatchMaker batches_;
  bool draining_ = false;
};

}  // namespace tidemill
