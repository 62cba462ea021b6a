// Where blobs are kept: in files, or in memory.
#pragma once

#include <memory>
#include <string>

#include "core/blob_store.h"

namespace tidemill {

// Files below `directory`, fanned out by the first two digits; written under another name, synced
// and renamed, so that a blob that is there is whole.
Result<std::unique_ptr<BlobStore>> OpenFileBlobs(const std::string& directory);

// In memory, for tests, the simulator and runs whose blobs need not outlive them.
std::unique_ptr<BlobStore> NewMemoryBlobs();

}  // namespace tidemill
