// Objects as files of a folder that several hosts share (NFS, say). They appear by rename. Nothing
// is synced to the disk: what a crash takes away is made again, and checksums give half-kept files
// away.
#pragma once

#include <memory>
#include <string>

#include "core/object_place.h"

namespace tidemill {

// The folder is made by the first Clear or Put; a reader may come before it is there.
std::unique_ptr<ObjectPlace> NewFolderPlace(const std::string& dir);

}  // namespace tidemill
