#include "store/lock_check.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "core/fd.h"
#include "core/files.h"

namespace tidemill {
namespace {

struct FolderMount {
  std::string point, type;
  std::set<std::string> options;  // of the mount and of the file system
};

// "\040" for a blank, as the kernel writes it.
std::string UnescapedPoint(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      plain += text[i];
      continue;
    }
    plain +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

void AddOptions(const std::string& list, std::set<std::string>& options) {
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) options.insert(word);
}

// "36 35 98:0 / /mnt rw,noatime shared:1 - nfs4 server:/runs rw,local_lock=none".
std::optional<FolderMount> ReadMount(const std::string& line) {
  std::istringstream words(line);
  std::string id, parent, device, root, point, word, source, rest;
  FolderMount mount;
  words >> id >> parent >> device >> root >> point >> word;
  AddOptions(word, mount.options);
  while (words >> word && word != "-") {
  }
  if (!(words >> mount.type >> source >> rest)) return std::nullopt;
  AddOptions(rest, mount.options);
  mount.point = UnescapedPoint(point);
  return mount;
}

bool IsBelow(const std::string& path, const std::string& point) {
  if (point == "/") return true;
  return path == point || path.rfind(point + "/", 0) == 0;
}

// The one whose point is the longest; of equal ones the last, which covers those before.
std::optional<FolderMount> MountOf(const std::string& path, const std::string& mounts) {
  std::optional<FolderMount> found;
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    std::optional<FolderMount> mount = ReadMount(line);
    if (!mount || !IsBelow(path, mount->point)) continue;
    if (!found || mount->point.size() >= found->point.size()) found = std::move(mount);
  }
  return found;
}

// Why locks of this file system are not seen by other machines; empty: they are, or there are none.
std::string WhyLocal(const FolderMount& mount) {
  for (const char* option :
       {"nolock", "local_lock=all", "local_lock=posix", "localflock", "nobrl"}) {
    if (mount.options.count(option) != 0) return std::string("option ") + option;
  }
  for (const char* type :
       {"fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.goofys"}) {
    if (mount.type == type) return "which has no locks";
  }
  return "";
}

Status Refused(const std::string& folder, const std::string& type, const std::string& why) {
  return Invalid(folder + ": no run can be kept here: its file system (" + type + ", " + why +
                 ") keeps no locks that every machine sees, and the run's database would break; "
                 "mount it with locks, or set run.folder to a folder on another file system");
}

class SystemLockPort final : public LockPort {
 public:
  std::string Mounts() override {
    constexpr size_t kMountsBytes = 16u << 20;
    const Result<std::string> text = ReadFileBounded("/proc/self/mountinfo", kMountsBytes);
    return text.ok() ? *text : "";
  }
  Status SeesLock(const std::string& held_file) override {
    const Fd fd(open(held_file.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return FileFailure(held_file, "cannot open", errno);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (fcntl(fd.get(), F_OFD_SETLK, &lock) == 0) return Unavailable("a second lock was granted");
    if (errno == EAGAIN || errno == EACCES) return Ok();
    return Unavailable(std::strerror(errno));
  }
};

}  // namespace

LockPort& SystemLocks() {
  static SystemLockPort port;
  return port;
}

Status CheckLocks(const std::string& folder, const std::string& held_file, LockPort& locks) {
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(folder, error);
  const std::optional<FolderMount> mount = MountOf(error ? folder : path.string(), locks.Mounts());
  const std::string type = mount ? mount->type : "of an unknown kind";
  if (const std::string why = mount ? WhyLocal(*mount) : ""; !why.empty()) {
    return Refused(folder, type, why);
  }
  const Status seen = locks.SeesLock(held_file);
  return seen.ok() ? Ok() : Refused(folder, type, seen.message());
}

}  // namespace tidemill
