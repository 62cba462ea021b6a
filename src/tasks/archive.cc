#include "tasks/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <filesystem>

namespace tidemill {
namespace {

constexpr size_t kBlockBytes = 64 * 1024;
constexpr size_t kNameBytesMax = 4096;
// Headers, padding and what is passed over count as well: an archive of nothing else has an end.
constexpr uint64_t kOverhead = 4;

std::string Plain(const char* name) {
  std::string_view text = name != nullptr ? name : "";
  while (text.starts_with("./")) text.remove_prefix(2);
  while (text.ends_with('/')) text.remove_suffix(1);
  return text == "." ? std::string() : std::string(text);
}

}  // namespace

void Archive::Free::operator()(struct archive* handle) const {
  archive_read_free(handle);
}

Archive::Archive(const ArchiveLimits& limits) : handle_(archive_read_new()), limits_(limits) {
  struct archive* a = handle_.get();
  TM_CHECK(a != nullptr);
  archive_read_support_filter_gzip(a);
  archive_read_support_filter_zstd(a);
  archive_read_support_format_tar(a);
}

Result<Archive> Archive::Open(const std::string& path, const ArchiveLimits& limits) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return NotFound(path + ": no such file, or no regular file");
  }
  Archive archive(limits);
  if (archive_read_open_filename(archive.handle_.get(), path.c_str(), kBlockBytes) != ARCHIVE_OK) {
    return Invalid(path + ": must be a tar file, plain or compressed with gzip or zstd");
  }
  return archive;
}

Result<Archive> Archive::FromMemory(std::string_view bytes, const ArchiveLimits& limits) {
  Archive archive(limits);
  if (archive_read_open_memory(archive.handle_.get(), bytes.data(), bytes.size()) != ARCHIVE_OK) {
    return Invalid("must be a tar file, plain or compressed with gzip or zstd");
  }
  return archive;
}

Result<bool> Archive::Next(ArchiveEntry* entry) {
  struct archive* a = handle_.get();
  struct archive_entry* found = nullptr;
  const int code = archive_read_next_header(a, &found);
  if (code == ARCHIVE_EOF) return false;
  if (code < ARCHIVE_WARN || found == nullptr) {
    const char* why = archive_error_string(a);
    return Invalid(std::string("is no tar file, or broken: ") + (why != nullptr ? why : "?"));
  }
  if (++entries_ > limits_.entries_max) {
    return Full("has more than " + std::to_string(limits_.entries_max) + " entries");
  }
  const uint64_t read = static_cast<uint64_t>(std::max<int64_t>(0, archive_filter_bytes(a, 0)));
  if (read / kOverhead > limits_.bytes_max + limits_.entries_max * 1024) {
    return Full("unpacks to more than " + std::to_string(limits_.bytes_max) + " bytes");
  }
  const char* name = archive_entry_pathname(found);
  const char* hard = archive_entry_hardlink(found);
  const char* soft = archive_entry_symlink(found);
  *entry = ArchiveEntry();
  entry->path = Plain(name);
  if (entry->path.size() > kNameBytesMax) return Invalid("has a name longer than 4096 bytes");
  entry->mode = static_cast<uint32_t>(archive_entry_perm(found)) & 07777;
  entry->bytes = static_cast<uint64_t>(std::max<int64_t>(0, archive_entry_size(found)));
  if (hard != nullptr) {
    entry->kind = ArchiveEntry::Kind::kHardLink;
    entry->target = Plain(hard);
  } else if (archive_entry_filetype(found) == AE_IFLNK) {
    entry->kind = ArchiveEntry::Kind::kLink;
    entry->target = soft != nullptr ? soft : "";
  } else if (archive_entry_filetype(found) == AE_IFDIR) {
    entry->kind = ArchiveEntry::Kind::kFolder;
  } else if (archive_entry_filetype(found) == AE_IFREG) {
    entry->kind = ArchiveEntry::Kind::kFile;
  }
  // Before a byte of it is unpacked, also to pass over it.
  if (entry->bytes > limits_.file_bytes_max) {
    return Full(entry->path + ": is larger than " + std::to_string(limits_.file_bytes_max) +
                " bytes");
  }
  return true;
}

Result<std::string> Archive::Content() {
  std::string content;
  char block[kBlockBytes];
  for (;;) {
    const la_ssize_t got = archive_read_data(handle_.get(), block, sizeof block);
    if (got < 0) {
      const char* why = archive_error_string(handle_.get());
      return Invalid(std::string("is broken: ") + (why != nullptr ? why : "?"));
    }
    if (got == 0) return content;
    bytes_ += static_cast<uint64_t>(got);
    if (content.size() + static_cast<size_t>(got) > limits_.file_bytes_max) {
      return Full("has a file larger than " + std::to_string(limits_.file_bytes_max) + " bytes");
    }
    if (bytes_ > limits_.bytes_max) {
      return Full("unpacks to more than " + std::to_string(limits_.bytes_max) + " bytes");
    }
    content.append(block, static_cast<size_t>(got));
  }
}

}  // namespace tidemill
