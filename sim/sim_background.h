// What the simulator's agents call in the background, and what must hold of it in every episode
// that is stored.
#pragma once

#include <string>

#include "proto/tidemill.pb.h"
#include "sim/simulation.h"

namespace tidemill::sim {

// The planted bugs that an episode shows.
inline bool IsOfBackground(Bug bug) {
  return bug == Bug::kDeliveredTwice || bug == Bug::kDeliveredToAnother ||
         bug == Bug::kDeliveredAfterEnd || bug == Bug::kCancelledIsCharged;
}

// What a simulated tool says: what it was asked. Calls that ask the same share an answer, as real
// ones do.
std::string SimToolText(const std::string& arguments_json);

// The first promise that the episode's background calls break; empty: none.
std::string WrongBackground(const v1::Trajectory& trajectory);

// The episode as a worker with the bug would have told it; as it is, where it gives no occasion.
void PlantInEpisode(Bug bug, v1::Trajectory& trajectory);

}  // namespace tidemill::sim
