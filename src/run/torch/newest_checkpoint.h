// Where a resumed run goes on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/policy_names.h"
#include "core/status.h"
#include "run/policies.h"
#include "store/run_directory.h"

namespace tidemill {

struct FoundCheckpoint {
  uint64_t step = 0;                      // of the run
  std::map<PolicyId, std::string> paths;  // of each policy that took a step before
};

// The newest of the line of weights that lives: of every policy that is trained, or of none. Their
// files are compared with their checksums. Nothing: none was written yet. One of which somebody
// deleted a folder is passed over with a warning, so that a damaged one can be got rid of.
// kCorrupt: it is damaged. kNotFound: all of them are gone.
Result<std::optional<FoundCheckpoint>> NewestCheckpoint(const RunDirectory& directory,
                                                        const std::vector<RunPolicy>& policies);

}  // namespace tidemill
