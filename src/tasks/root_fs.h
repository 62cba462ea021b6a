// Root file systems for boxes, so that a task brings its own toolchain: a folder, a tar file, or an
// image in an OCI layout (skopeo copy docker://.. oci:DIR). Each is unpacked once, found again by
// its hash, and mounted read-only by every box.
//
//   source -> hash -> ROOTS/HASH/ (the files), ROOTS/HASH.env (the image's variables)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct RootLimits {
  uint64_t entries_max = 1'000'000;
  uint64_t file_bytes_max = uint64_t{4} << 30;
  uint64_t bytes_max = uint64_t{16} << 30;
};

// `configured` where it is not empty; else ~/.cache/tidemill/roots, or below XDG_CACHE_HOME, and
// /var/cache/tidemill/roots for root.
std::string RootsFolder(const std::string& configured);

// Unpacks the root unless it is there, and gives its hash. A folder is not copied: it must stay as
// it is. kNotFound: no such source; kInvalid: it is no root (no /bin or /usr), no archive, or an
// image whose parts do not have the hashes they say; kFull: over a limit.
Result<std::string> PrepareRoot(const std::string& source, const std::string& roots,
                                const RootLimits& limits = {});

struct RootPlace {
  std::string folder;
  std::vector<std::string> environment;  // "NAME=value"
};

// kNotFound: it was not unpacked on this machine.
Result<RootPlace> FindRoot(const std::string& hash, const std::string& roots);

}  // namespace tidemill
