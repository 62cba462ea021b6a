// Unpacks tar files that come from outside into a folder of ours. Whatever an entry is called and
// whatever its links point to, nothing is written or read outside of the folder.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

// The budget that is left for this and further layers.
struct UnpackBudget {
  uint64_t entries = 0;
  uint64_t file_bytes_max = 0;
  uint64_t bytes = 0;
};

// Files, folders and links, as a layer of an OCI image: ".wh.NAME" removes NAME, ".wh..wh..opq"
// empties the folder it is in. Devices, FIFOs and sockets are left out; set-user-id bits go; all is
// readable for everybody. kInvalid: a name with "..", no archive; kFull: over the budget.
Status UnpackLayer(const std::string& archive, const std::string& folder, UnpackBudget* budget);

}  // namespace tidemill
