// The teacher's question about an episode, and the check of its answer.
#pragma once

#include <cstddef>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "replay/replay_group.h"
#include "replay/replay_options.h"

namespace tidemill {

// Without an id. No sequences: there is nothing to ask about. `task` may be null: it is unknown.
v1::TeacherRequest MakeTeacherRequest(const ReplayMember& member, const v1::Task* task,
                                      const ReplayOptions& options);

// kInvalid: the answer is not about this trajectory.
Status CheckTaught(const v1::TeacherAnswer& answer, const v1::Trajectory& of,
                   const ReplayOptions& options);

// One of each turn's scores: those that differ most from the sampler's.
std::vector<v1::TurnScores> Strongest(const v1::TeacherAnswer& answer, const v1::Trajectory& of);

}  // namespace tidemill
