// The reward loop's question about a member: by reference, without its tokens.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/tidemill.pb.h"
#include "replay/replay_group.h"
#include "replay/replay_options.h"

namespace tidemill {

// Without an id. `known`: the highest version of each scorer that was seen.
v1::ScoreRequest MakeScoreRequest(const v1::Task& task, const ReplayGroup& group, uint32_t member,
                                  const std::map<std::string, uint32_t>& known,
                                  const ReplayOptions& options);

// kInvalid: the verdict is not on this trajectory.
Status CheckVerdict(const v1::Verdict& verdict, const v1::Trajectory& of);
Status CheckTurnRewards(const v1::Verdict& verdict, const v1::Trajectory& of);

}  // namespace tidemill
