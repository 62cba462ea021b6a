// An episode's time as a few lines of text: what it went on, and a lane for its turns and for each
// of its calls.
#pragma once

#include <string>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Two spaces in front of each line. Empty: the episode was stored without its times.
std::string TimelineText(const v1::Trajectory& trajectory);

}  // namespace tidemill
