// Which BLAS the tensor work of this process really runs on. With the reference one training is an
// order of magnitude slower and nothing else says so.
#pragma once

#include <string>
#include <string_view>

namespace tidemill {

enum class BlasKind { kNone, kOpenBlas, kMkl, kBlis, kAtlas, kReference, kUnknown };

std::string_view BlasName(BlasKind kind);

struct BlasInfo {
  BlasKind kind = BlasKind::kNone;  // kNone: no BLAS is loaded in this process
  std::string file;                 // what defines sgemm_, links resolved
  std::string details;              // OpenBLAS: its version, kernel and thread count
  std::string warning;              // empty when fine
  std::string fix;                  // a command, when there is a warning
};

// Asks the dynamic linker, so it answers for libtorch as loaded here and now.
BlasInfo CheckBlas();

// Names the BLAS by the file that defines it, links resolved.
BlasKind BlasOfFile(std::string_view file);

}  // namespace tidemill
