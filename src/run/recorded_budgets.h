// Token budgets of steps that a resumed run takes again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/status.h"

namespace tidemill {

// Those recorded with the policy's steps after step `after` of the run whose database this is, by
// the number a batch has (the first is 0). To be read before the steps are abandoned. `policy`: its
// name as in messages.
Result<std::map<uint64_t, int64_t>> RecordedBudgets(const std::string& db_path, uint64_t after,
                                                    const std::string& policy);

}  // namespace tidemill
