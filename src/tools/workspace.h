// A workspace tree as plain files by path, and back.
#pragma once

#include <map>
#include <string>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "store/blobs.h"

namespace tidemill {

struct WorkspaceFile {
  std::string content;
  bool executable = false;
};

// Files by path, sorted.
using Workspace = std::map<std::string, WorkspaceFile, std::less<>>;

struct WorkspaceLimits {
  size_t files_max = 16'384;
  size_t bytes_max = size_t{64} << 20;
};

// The tree with `edits` written over it. Contents that travel by hash come from `blobs` (may be
// null where none do). kInvalid: a path or a size is wrong; kNotFound, kUnavailable, kCorrupt: a
// blob's failure, ours.
Result<Workspace> LoadWorkspace(const v1::Tree& tree,
                                const google::protobuf::RepeatedPtrField<v1::File>& edits,
                                BlobStore* blobs, const WorkspaceLimits& limits = {});

// Large contents go to `blobs` where there is one.
Result<v1::Tree> StoreWorkspace(const Workspace& workspace, BlobStore* blobs);

}  // namespace tidemill
