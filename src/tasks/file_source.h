// Reads the files a task names instead of holding them: a folder, a tar file, or a git repository
// at a commit.
//
//   FileSource -> folder | tar | git -> files, sorted by path
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct FileSourceLimits {
  uint64_t files_max = 16'384;
  uint64_t bytes_max = uint64_t{64} << 20;
};

struct SourceFiles {
  std::vector<v1::File> files;  // with their contents, sorted by path
  uint64_t left_out = 0;        // symbolic links, devices and the like, which no workspace holds
};

// Relative paths begin at `base`. kNotFound: no such folder, file or commit; kInvalid: a name that
// no workspace can have, or an archive that is none; kFull: over a limit.
Result<SourceFiles> ReadFileSource(const v1::FileSource& source, const std::string& base,
                                   const FileSourceLimits& limits = {});

// "the folder a/b", for messages.
std::string NameOf(const v1::FileSource& source);

}  // namespace tidemill
