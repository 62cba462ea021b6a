#include "store/blobs.h"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "core/files.h"
#include "core/hash.h"
#include "core/mutex.h"
#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kBlobBytesMax = size_t{1} << 30;

// A hash from outside becomes part of a path, so nothing else may pass.
Status CheckHash(std::string_view hash) {
  const bool hex = std::all_of(hash.begin(), hash.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (hash.size() == 64 && hex) return Ok();
  return Invalid("\"" + Beginning(hash, 80) +
                 "\" is not the hash of a blob: expected 64 lower-case hex digits");
}

Status CheckSize(std::string_view content) {
  if (content.size() <= kBlobBytesMax) return Ok();
  return Invalid("a blob of " + std::to_string(content.size()) +
                 " bytes is larger than the limit of " + std::to_string(kBlobBytesMax));
}

// Durable on return from Put.
class FileBlobs final : public BlobStore {
 public:
  explicit FileBlobs(std::string directory) : directory_(std::move(directory)) {}

  Result<std::string> Put(std::string_view content) override {
    TM_RETURN_IF_ERROR(CheckSize(content));
    std::string hash = Sha256Hex(content);
    const std::string path = PathOf(hash);
    if (access(path.c_str(), F_OK) == 0) {
      // Whole unless the disk damaged it; then this is the chance to mend it.
      auto there = ReadFileBounded(path, content.size());
      if (there.ok() && *there == content) return hash;
    }
    TM_RETURN_IF_ERROR(MakeDirectories(directory_ + "/" + hash.substr(0, 2)));
    TM_RETURN_IF_ERROR(WriteFileAtomically(path, content));
    return hash;
  }

  Result<std::string> Get(std::string_view hash) override {
    TM_RETURN_IF_ERROR(CheckHash(hash));
    const std::string path = PathOf(hash);
    auto content = ReadFileBounded(path, kBlobBytesMax);
    if (!content.ok()) {
      if (content.status().code() != Code::kNotFound) return content.status();
      return NotFound("no blob " + std::string(hash) + " in " + directory_);
    }
    if (Sha256Hex(*content) != hash) return Corrupt(path + ": its content does not match its hash");
    return content;
  }

 private:
  std::string PathOf(std::string_view hash) const {
    return directory_ + "/" + std::string(hash.substr(0, 2)) + "/" + std::string(hash.substr(2));
  }

  const std::string directory_;
};

class MemoryBlobs final : public BlobStore {
 public:
  Result<std::string> Put(std::string_view content) override {
    TM_RETURN_IF_ERROR(CheckSize(content));
    std::string hash = Sha256Hex(content);
    MutexLock lock(mutex_);
    blobs_.try_emplace(hash, content);
    return hash;
  }

  Result<std::string> Get(std::string_view hash) override {
    TM_RETURN_IF_ERROR(CheckHash(hash));
    MutexLock lock(mutex_);
    const auto found = blobs_.find(std::string(hash));
    if (found == blobs_.end()) return NotFound("no blob " + std::string(hash) + " in memory");
    return found->second;
  }

 private:
  Mutex mutex_;
  std::unordered_map<std::string, std::string> blobs_ TM_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<BlobStore>> OpenFileBlobs(const std::string& directory) {
  TM_RETURN_IF_ERROR(MakeDirectories(directory));
  return std::unique_ptr<BlobStore>(std::make_unique<FileBlobs>(directory));
}

std::unique_ptr<BlobStore> NewMemoryBlobs() {
  return std::make_unique<MemoryBlobs>();
}

}  // namespace tidemill
