// Where a resumed run goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/status.h"
#include "store/run_directory.h"

namespace tidemill {

struct FoundCheckpoint {
  uint64_t step = 0;
  std::string path;
};

// The newest of the line of weights that lives, its files compared with their checksums. Nothing:
// none was written yet. One whose folder somebody deleted is passed over with a warning, so that a
// damaged one can be got rid of. kCorrupt: it is damaged. kNotFound: all of them are gone.
Result<std::optional<FoundCheckpoint>> NewestCheckpoint(const RunDirectory& directory);

}  // namespace tidemill
