// Reads tar files, plain or compressed with gzip or zstd. They come from outside: sizes, counts and
// names are bounded here, and what an entry may be is for the caller to say.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

struct archive;

namespace tidemill {

struct ArchiveLimits {
  uint64_t entries_max = 65'536;
  uint64_t file_bytes_max = uint64_t{64} << 20;
  uint64_t bytes_max = uint64_t{64} << 20;  // of all files together, unpacked
};

struct ArchiveEntry {
  enum class Kind : uint8_t { kFile, kFolder, kLink, kHardLink, kOther };  // kOther: devices, FIFOs
  std::string path;  // without "./" in front and "/" behind; as it stands in the archive otherwise
  Kind kind = Kind::kOther;
  std::string target;  // of a link
  uint32_t mode = 0;   // permission bits
  uint64_t bytes = 0;
};

// Belongs to one thread. After a failure it is not to be used.
class Archive {
 public:
  static Result<Archive> Open(const std::string& path, const ArchiveLimits& limits);
  // `bytes` must outlive it.
  static Result<Archive> FromMemory(std::string_view bytes, const ArchiveLimits& limits);
  Archive(Archive&&) = default;
  Archive& operator=(Archive&&) = default;

  // False: the end. kInvalid: no tar file, or broken; kFull: over a limit, which is named.
  Result<bool> Next(ArchiveEntry* entry);
  // The content of the file Next gave last; once.
  Result<std::string> Content();

 private:
  struct Free {
    void operator()(struct archive* handle) const;
  };
  explicit Archive(const ArchiveLimits& limits);

  std::unique_ptr<struct archive, Free> handle_;
  ArchiveLimits limits_;
  uint64_t entries_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace tidemill
