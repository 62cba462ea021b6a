// From [live] of the config to what keeps sessions.
#pragma once

#include <string>

#include "core/status.h"
#include "live/live_signals.h"
#include "live/next_state.h"
#include "live/release_book.h"
#include "live/session_table.h"
#include "run/run_config.h"

namespace tidemill {

// kInvalid names the key.
Result<LiveOptions> LiveOptionsFrom(const RunConfig& config);
ReleaseOptions ReleaseOptionsFrom(const RunConfig& config);
// With the quarantine that an earlier process left in the run's folder. `tasks`: those of training.
SignalOptions SignalOptionsFrom(const RunConfig& config, const std::vector<v1::Task>& tasks,
                                const std::string& run_path);
// The judges with live = true; without a secret.
NextStateOptions NextStateOptionsFrom(const RunConfig& config);
// At most this share of a batch's sessions may be of one tenant: live.tenant_share, but enough that
// the tenants who consent to training can fill a batch. Without keys there is one tenant: 1.
double TenantShareFrom(const RunConfig& config);

}  // namespace tidemill
