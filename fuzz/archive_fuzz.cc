// A tar file from outside, plain or compressed: read to its end within the limits, or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tasks/archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const ArchiveLimits limits{.entries_max = 100, .file_bytes_max = 1 << 16, .bytes_max = 1 << 18};
  auto archive = Archive::FromMemory({reinterpret_cast<const char*>(data), size}, limits);
  if (!archive.ok()) return 0;
  ArchiveEntry entry;
  size_t entries = 0, bytes = 0;
  for (;;) {
    const auto more = archive->Next(&entry);
    if (!more.ok() || !*more) return 0;
    if (++entries > limits.entries_max) std::abort();
    if (entry.kind != ArchiveEntry::Kind::kFile) continue;
    const auto content = archive->Content();
    if (!content.ok()) return 0;
    bytes += content->size();
    if (content->size() > limits.file_bytes_max || bytes > limits.bytes_max) std::abort();
  }
}
