// From [live] of the config to what keeps sessions.
#pragma once

#include "config/run_config.h"
#include "core/status.h"
#include "live/release_book.h"
#include "live/session_table.h"

namespace tidemill {

// kInvalid names the key.
Result<LiveOptions> LiveOptionsFrom(const RunConfig& config);
ReleaseOptions ReleaseOptionsFrom(const RunConfig& config);

}  // namespace tidemill
