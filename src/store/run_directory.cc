#include "store/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/files.h"
#include "core/text.h"
#include "store/lock_check.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
constexpr size_t kSmallFileMax = size_t{16} << 20;

bool IsRun(const std::string& path) {
  return access((path + "/config.toml").c_str(), F_OK) == 0;
}

// An open-file-description lock: like flock it ends with the descriptor, but one can also ask for
// it without taking it.
struct flock WholeFileLock() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// "process 4711 on build-3", as the holder wrote it.
std::string HolderOf(const std::string& lock_path) {
  auto holder = ReadFileBounded(lock_path, 4096);
  if (!holder.ok() || holder->empty()) return "another process";
  holder->erase(holder->find_last_not_of('\n') + 1);
  return *holder;
}

bool IsLocked(const std::string& lock_path) {
  const Fd fd(open(lock_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd || !RegularFileSize(fd, lock_path).ok()) return false;
  struct flock lock = WholeFileLock();
  lock.l_type =
      F_RDLCK;  // a descriptor that only reads may ask for no more; a writer is in the way of it
  return fcntl(fd.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int64_t ModifiedMs(const std::string& path) {
  int64_t newest = 0;
  for (const char* file : {"", "/run.db", "/run.db-wal", "/metrics.jsonl", "/summary.json"}) {
    struct stat info {};
    if (stat((path + file).c_str(), &info) != 0) continue;
    newest = std::max<int64_t>(
        newest, info.st_mtim.tv_sec * int64_t{1000} + info.st_mtim.tv_nsec / 1'000'000);
  }
  return newest;
}

}  // namespace

Status CheckRunName(std::string_view name) {
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (letters && !name.empty() && name.size() <= 100 && name[0] != '.' && name[0] != '-')
    return Ok();
  return Invalid("\"" + Beginning(name, 120) +
                 "\" is not a valid run name: use 1 to 100 of a-z A-Z 0-9 . _ -, not starting with "
                 "a dot or a dash");
}

Result<RunDirectory> RunDirectory::Create(const std::string& runs_root, const std::string& name,
                                          std::string_view config_toml) {
  TM_RETURN_IF_ERROR(CheckRunName(name));
  RunDirectory run(name, runs_root + "/" + name);
  TM_RETURN_IF_ERROR(MakeDirectories(run.path_));
  // A directory without a config is one whose making was cut short, or an empty one: ours to
  // finish.
  if (IsRun(run.path_) || access(run.db_path().c_str(), F_OK) == 0) {
    return Exists(run.path_ + ": a run of this name exists; resume it or choose another name");
  }
  TM_RETURN_IF_ERROR(run.TakeLock());
  if (IsRun(run.path_))
    return Exists(run.path_ + ": another process has just created a run of this name");
  TM_RETURN_IF_ERROR(MakeDirectories(run.blobs_path()));
  TM_RETURN_IF_ERROR(MakeDirectories(run.checkpoints_path()));
  TM_RETURN_IF_ERROR(run.WriteConfig(config_toml));
  return run;
}

Result<RunDirectory> RunDirectory::OpenToRead(const std::string& runs_root,
                                              const std::string& name) {
  TM_RETURN_IF_ERROR(CheckRunName(name));
  RunDirectory run(name, runs_root + "/" + name);
  if (!IsRun(run.path_)) return NotFound(run.path_ + ": no such run");
  return run;
}

Result<RunDirectory> RunDirectory::OpenToResume(const std::string& runs_root,
                                                const std::string& name) {
  TM_ASSIGN_OR_RETURN(RunDirectory run, OpenToRead(runs_root, name));
  TM_RETURN_IF_ERROR(run.CheckDatabaseThere());
  TM_RETURN_IF_ERROR(run.TakeLock());
  TM_RETURN_IF_ERROR(MakeDirectories(run.blobs_path()));
  TM_RETURN_IF_ERROR(MakeDirectories(run.checkpoints_path()));
  return run;
}

Result<std::vector<RunInfo>> RunDirectory::List(const std::string& runs_root) {
  std::vector<RunInfo> runs;
  std::error_code error;
  fs::directory_iterator entries(runs_root, error);
  if (error == std::errc::no_such_file_or_directory) return runs;
  if (error) return FileFailure(runs_root, "cannot list", error.value());
  for (const fs::directory_entry& entry : entries) {
    const std::string path = runs_root + "/" + entry.path().filename().string();
    if (!IsRun(path)) continue;
    RunInfo info;
    info.name = entry.path().filename().string();
    info.path = path;
    info.writing = IsLocked(path + "/lock");
    info.has_summary = access((path + "/summary.json").c_str(), F_OK) == 0;
    info.modified_ms = ModifiedMs(path);
    runs.push_back(std::move(info));
  }
  std::sort(runs.begin(), runs.end(),
            [](const RunInfo& a, const RunInfo& b) { return a.name < b.name; });
  return runs;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : name_(std::move(other.name_)),
      path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)) {}

RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(path_, other.path_);
  std::swap(lock_fd_, other.lock_fd_);
  return *this;
}

RunDirectory::~RunDirectory() {
  if (lock_fd_ >= 0) close(lock_fd_);  // and with it the lock
}

std::string RunDirectory::Inside(const std::string& path) const {
  return path.starts_with('/') ? path : path_ + "/" + path;
}

// A run that was cut short while it was made has neither; one that got anywhere has both.
Status RunDirectory::CheckDatabaseThere() const {
  std::error_code missing, unlisted;
  const auto bytes = fs::file_size(db_path(), missing);
  if (!missing && bytes > 0) return Ok();
  if (missing && missing != std::errc::no_such_file_or_directory) {
    return Unavailable(db_path() + ": " + missing.message());
  }
  const fs::directory_iterator checkpoints(checkpoints_path(), unlisted);
  const bool began = access(metrics_path().c_str(), F_OK) == 0 ||
                     access(summary_path().c_str(), F_OK) == 0 ||
                     (!unlisted && checkpoints != fs::directory_iterator());
  if (!began) return Ok();
  return NotFound(db_path() +
                  ": is missing or empty, and the run did work that only it tells of; put it back. "
                  "To use a checkpoint without it, begin a new run with model.path=" +
                  checkpoints_path() + "/step-N");
}

Status RunDirectory::TakeLock() {
  const std::string file = lock_path();
  Fd opened(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!opened) return FileFailure(file, "cannot open", errno);
  TM_RETURN_IF_ERROR(RegularFileSize(opened, file).status());
  lock_fd_ = opened.Release();
  struct flock lock = WholeFileLock();
  if (fcntl(lock_fd_, F_OFD_SETLK, &lock) != 0) {
    const int error = errno;
    close(std::exchange(lock_fd_, -1));
    if (error != EAGAIN && error != EACCES) return FileFailure(file, "cannot lock", error);
    return Unavailable(path_ + ": " + HolderOf(file) + " is writing this run (it holds " + file +
                       ")");
  }
  if (const Status locks = CheckLocks(path_, file, SystemLocks()); !locks.ok()) {
    close(std::exchange(lock_fd_, -1));
    return locks;
  }
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::string holder = "process " + std::to_string(getpid()) + " on " + host + "\n";
  // For people only; the lock itself is what counts, so a failure here changes nothing.
  if (ftruncate(lock_fd_, 0) == 0 && pwrite(lock_fd_, holder.data(), holder.size(), 0) < 0) {
    return FileFailure(file, "cannot write", errno);
  }
  return Ok();
}

Status RunDirectory::CheckThere() const {
  TM_CHECK(lock_fd_ >= 0, "of a run that is written");
  struct stat held {
  }, named{};
  const bool there = fstat(lock_fd_, &held) == 0 && stat(lock_path().c_str(), &named) == 0 &&
                     held.st_ino == named.st_ino && held.st_dev == named.st_dev;
  if (there) return Ok();
  return NotFound(path_ +
                  ": the run's directory was deleted or replaced while the run wrote to it");
}

void RunDirectory::Discard() {
  TM_CHECK(lock_fd_ >= 0, "the run is open read-only");
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<std::string> RunDirectory::ReadConfig() const {
  return ReadFileBounded(config_path(), kSmallFileMax);
}
Result<std::string> RunDirectory::ReadSummary() const {
  return ReadFileBounded(summary_path(), kSmallFileMax);
}

Status RunDirectory::WriteConfig(std::string_view toml) {
  TM_CHECK(lock_fd_ >= 0, "the run is open read-only");
  return WriteFileAtomically(config_path(), toml);
}

Status RunDirectory::WriteSummary(std::string_view json) {
  TM_CHECK(lock_fd_ >= 0, "the run is open read-only");
  return WriteFileAtomically(summary_path(), json);
}

void RunDirectory::RemoveSummary() {
  TM_CHECK(lock_fd_ >= 0, "the run is open read-only");
  unlink(summary_path().c_str());
}

}  // namespace tidemill
