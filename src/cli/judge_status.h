// The output of `tidemill judge status`: the figures of a run's judges and audits.
#pragma once

#include <string>

namespace tidemill {

// Returns the exit status.
int ShowJudges(const std::string& runs, const std::string& run, bool json);

}  // namespace tidemill
