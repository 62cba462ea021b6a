#include "weights/folder_place.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "core/fd.h"
#include "core/files.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".part";
constexpr size_t kFilePiece = 1 << 20;

class FolderPlace final : public ObjectPlace {
 public:
  explicit FolderPlace(std::string dir) : dir_(std::move(dir)) {}

  Status Clear(std::span<const std::string_view> prefixes) override {
    TM_RETURN_IF_ERROR(MakeFolder());
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(dir_, error)) {
      const std::string name = entry.path().filename().string();
      const bool ours = std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) {
        return name.starts_with(prefix);
      });
      std::error_code ignored;  // what stays costs space, no more
      if (ours) fs::remove(entry.path(), ignored);
    }
    return error ? Unavailable(dir_ + ": cannot read it: " + error.message()) : Ok();
  }

  Status Put(std::string_view name, std::span<const std::string_view> parts) override {
    TM_RETURN_IF_ERROR(MakeFolder());
    const std::string path = Name(name);
    const std::string part = path + std::string(kUnfinished);
    Status status = Write(part, parts);
    if (status.ok() && std::rename(part.c_str(), path.c_str()) != 0) {
      status = FileFailure(path, "cannot rename to", errno);
    }
    std::error_code ignored;
    if (!status.ok()) fs::remove(part, ignored);
    return status;
  }

  Status Remove(std::string_view name) override {
    std::error_code error;
    fs::remove(Name(name), error);
    return error ? Unavailable(Name(name) + ": cannot remove: " + error.message()) : Ok();
  }

  Result<std::string> Get(std::string_view name, size_t bytes_max) override {
    return ReadFileBounded(Name(name), bytes_max);
  }

  Status Read(std::string_view name, std::span<std::byte> to) override {
    const std::string path = Name(name);
    // Not blocking: a pipe would make us wait for ever.
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return FileFailure(path, "cannot open", errno);
    TM_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(fd, path));
    if (size != to.size()) {
      return Corrupt(path + ": has " + std::to_string(size) + " bytes, expected " +
                     std::to_string(to.size()));
    }
    for (size_t at = 0; at < to.size();) {
      const size_t piece = std::min(kFilePiece, to.size() - at);
      const ssize_t got = pread(fd.get(), to.data() + at, piece, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FileFailure(path, "cannot read", errno);
      if (got == 0) return Corrupt(path + ": ends after " + std::to_string(at) + " bytes");
      at += static_cast<size_t>(got);
    }
    return Ok();
  }

  std::string Name(std::string_view name) const override { return dir_ + "/" + std::string(name); }

 private:
  Status MakeFolder() const {
    std::error_code error;
    fs::create_directories(dir_, error);
    return error ? Unavailable(dir_ + ": cannot create it: " + error.message()) : Ok();
  }

  static Status Write(const std::string& path, std::span<const std::string_view> parts) {
    const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) return FileFailure(path, "cannot create", errno);
    for (const std::string_view part : parts) TM_RETURN_IF_ERROR(WriteAll(fd, part, path));
    return Ok();
  }

  const std::string dir_;
};

}  // namespace

std::unique_ptr<ObjectPlace> NewFolderPlace(const std::string& dir) {
  return std::make_unique<FolderPlace>(dir);
}

}  // namespace tidemill
