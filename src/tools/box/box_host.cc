#include "tools/box/box_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/enum_name.h"
#include "core/log.h"
#include "core/threads.h"
#include "tools/box/box_image.h"
#include "tools/box/box_protocol.h"
#include "tools/box/syscall_filter.h"

namespace tidemill {
namespace {

// Users the boxes run as where the executor is root: far above any real one, one for each box that
// may be open at once, so that boxes share not even a user, and root's files are not theirs.
constexpr uint32_t kFirstUser = 1'900'000'000;
constexpr uint32_t kUsers = 1 << 20;
// Above the numbers the descriptors get in the child.
constexpr int kLowestFd = 10;
constexpr Duration kCgroupPatience = std::chrono::seconds(2);

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string FindInPath(const std::string& name) {
  const char* path = getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

// The first folder on the way to `path` that others may not pass through; empty: none. The way is
// that of the name and, where links lead elsewhere, that of the place.
std::string ClosedFolderAbove(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  for (const auto& way : {absolute, std::filesystem::weakly_canonical(absolute, error)}) {
    std::filesystem::path folder;
    for (const auto& part : way.parent_path()) {
      folder /= part;
      struct stat info = {};
      if (stat(folder.c_str(), &info) == 0 && (info.st_mode & S_IXOTH) == 0) return folder.string();
    }
  }
  return {};
}

Fd Above(Fd fd) {
  return Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, kLowestFd));
}

// Signals as a new program expects them, a process group of its own, the descriptors
// given and no other.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&actions_);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void Give(int fd, int as) { posix_spawn_file_actions_adddup2(&actions_, fd, as); }
  int Spawn(pid_t* pid, const char* program, char** arguments) {
    posix_spawn_file_actions_addclosefrom_np(&actions_, BOX_IMAGE_FD + 1);
    char* environment[] = {nullptr};
    return posix_spawn(pid, program, &actions_, &attributes_, arguments, environment);
  }

 private:
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t actions_;
};

}  // namespace

BoxHost::BoxHost(BoxHostOptions options) : options_(std::move(options)) {
  environment_ = {"PATH=" + std::string(kBoxPath),
                  "HOME=/tmp",
                  "USER=agent",
                  "LOGNAME=agent",
                  "LANG=C.UTF-8",
                  "TMPDIR=/tmp"};
  for (const std::string& variable : options_.environment) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    std::erase_if(environment_, [&](const std::string& one) { return one.starts_with(name); });
    environment_.push_back(variable);
  }
}

Result<std::unique_ptr<BoxHost>> BoxHost::Create(BoxHostOptions options) {
  std::unique_ptr<BoxHost> host(new BoxHost(std::move(options)));
  TM_RETURN_IF_ERROR(host->Prepare());
  host->reaper_ = std::thread([&host = *host] { host.Reap(); });
  TM_RETURN_IF_ERROR(host->Probe());
  return host;
}

Status BoxHost::Prepare() {
  if (options_.bubblewrap.empty()) options_.bubblewrap = FindInPath("bwrap");
  if (options_.bubblewrap.empty() || access(options_.bubblewrap.c_str(), X_OK) != 0) {
    return Unavailable("bubblewrap (bwrap) is not installed: tools cannot run without it");
  }
  TM_RETURN_IF_ERROR(PrepareImage());
  if (options_.cgroups) {
    cgroups_ =
        CgroupRoot::Find(ReadAll("/proc/self/mountinfo"), ReadAll("/proc/self/cgroup"), &degraded_);
    if (cgroups_ != nullptr) cgroups_->Sweep();
  } else {
    degraded_ = "cgroups are disabled";
  }
  if (!degraded_.empty()) {
    LogOnce("boxes-degraded", LogLevel::kWarn,
            "boxes have no cgroups: limits are enforced by rlimits and the pid namespace",
            {{"cause", degraded_}});
  }
  TM_ASSIGN_OR_RETURN(
      filter_, BuildSyscallFilter({.cgroups = cgroups_ != nullptr, .loopback = options_.loopback}));
  change_user_ = geteuid() == 0;
  if (options_.cores == 0) options_.cores = static_cast<size_t>(AvailableCores());
  PrepareArguments();
  return Ok();
}

Status BoxHost::PrepareImage() {
  const std::string_view image = BoxInitImage();
  constexpr unsigned kExec = 0x10;  // MFD_EXEC, since Linux 6.3
  Fd file(memfd_create("tidemill-box-init", MFD_CLOEXEC | kExec));
  if (!file) file = Fd(memfd_create("tidemill-box-init", MFD_CLOEXEC));
  if (!file || fchmod(file.get(), 0755) != 0 ||
      write(file.get(), image.data(), image.size()) != static_cast<ssize_t>(image.size())) {
    return Unavailable(fmt::format("keeping the boxes' init in memory: {}", strerror(errno)));
  }
  // Opened again without write access: the kernel runs no program that somebody could write to.
  image_ =
      Above(Fd(open(fmt::format("/proc/self/fd/{}", file.get()).c_str(), O_RDONLY | O_CLOEXEC)));
  if (!image_) return Unavailable(fmt::format("opening the boxes' init: {}", strerror(errno)));
  return Ok();
}

// The machine's own programs and libraries, and of /etc what programs need to start.
void BoxHost::AddMachine() {
  const auto add = [this](std::initializer_list<std::string> words) {
    arguments_.insert(arguments_.end(), words.begin(), words.end());
  };
  for (const char* name : {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
    const std::string path = std::string("/") + name;
    struct stat info = {};
    if (lstat(path.c_str(), &info) != 0) continue;
    char target[256];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    if (length > 0) {
      add({"--symlink", std::string(target, static_cast<size_t>(length)), path});
    } else {
      add({"--ro-bind", path, path});
    }
  }
  if (access("/etc/ld.so.cache", R_OK) == 0) {
    add({"--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache"});
  }
  // Links, not a mount: every mount costs a box a twentieth of its opening.
  for (const char* name : {"awk", "cc", "c++", "c89", "c99", "nawk", "which"}) {
    const std::string link = std::string("/etc/alternatives/") + name;
    char target[256];
    const ssize_t length = readlink(link.c_str(), target, sizeof target);
    if (length > 0) add({"--symlink", std::string(target, static_cast<size_t>(length)), link});
  }
  add({"--symlink", "/box/tmp", "/var/tmp"});
  if (!options_.loopback) return;
  for (const char* name : {"passwd", "hosts"}) {
    add({"--symlink", std::string("/box/etc/") + name, std::string("/etc/") + name});
  }
}

// Every folder of the root but those that a box has of its own. Nothing is mounted through a link:
// from here it would lead to the machine.
void BoxHost::AddRoot() {
  static const std::set<std::string> kOwn = {"proc", "sys",  "dev",       "tmp",   "run",  "box",
                                             "app",  "logs", "workspace", "tests", "agent"};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.root, error)) {
    const std::string name = entry.path().filename().string(), inside = "/" + name;
    if (kOwn.count(name) != 0) continue;
    if (entry.is_symlink(error)) {
      const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
      if (!target.empty()) arguments_.insert(arguments_.end(), {"--symlink", target, inside});
    } else if (entry.is_directory(error)) {
      arguments_.insert(arguments_.end(), {"--ro-bind", entry.path().string(), inside});
    }
  }
}

void BoxHost::PrepareArguments() {
  auto& a = arguments_;
  a = {options_.bubblewrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
       "--unshare-cgroup", "--unshare-net", "--uid", "1000", "--gid", "1000", "--hostname", "box",
       "--as-pid-1", "--cap-drop", "ALL",
       // Until Configure has sized the writable file system; no command ever runs with these.
       "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"};
  const auto add = [&a](std::initializer_list<std::string> words) {
    a.insert(a.end(), words.begin(), words.end());
  };
  options_.root.empty() ? AddMachine() : AddRoot();
  for (const BoxMount& mount : options_.mounts) add({"--ro-bind", mount.from, mount.to});
  add({"--proc", "/proc", "--dir", "/dev"});
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/urandom"}) {
    add({"--dev-bind", path, path});
  }
  add({"--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "/proc/self/fd/0", "/dev/stdin",
       "--symlink", "/proc/self/fd/1", "/dev/stdout", "--symlink", "/proc/self/fd/2", "/dev/stderr",
       "--symlink", "/box/shm", "/dev/shm", "--tmpfs", "/box", "--symlink", "/box/tmp", "/tmp",
       "--symlink", "/box/workspace", "/workspace",
       // Where tasks of other collections look for the workspace, their tests and their report.
       "--symlink", "/box/workspace", "/app", "--symlink", "/box/workspace/tests", "/tests",
       "--symlink", "/box/workspace/logs", "/logs", "--remount-ro", "/", "--chdir", "/", "--",
       fmt::format("/proc/self/fd/{}", static_cast<int>(BOX_IMAGE_FD))});
}

// One box from its opening to its end. Its user must be able to read what is mounted.
Status BoxHost::ProbeBox() {
  TM_ASSIGN_OR_RETURN(auto box, Start());
  TM_RETURN_IF_ERROR(box->Configure(BoxLimits()));
  constexpr int kClosed = 9;
  RunSpec spec;
  spec.command = {"/bin/sh", "-c",
                  "for m do [ -r \"$m\" ] && { [ ! -d \"$m\" ] || [ -x \"$m\" ]; } ||"
                  " { printf %s \"$m\"; exit 9; }; done",
                  "sh"};
  for (const BoxMount& mount : options_.mounts) spec.command.push_back(mount.to);
  const RunReport report = box->Run(spec);
  if (report.outcome == v1::OUTCOME_OK) return Ok();
  for (const BoxMount& mount : options_.mounts) {
    if (report.exit_code != kClosed || report.out != mount.to) continue;
    return Unavailable(
        fmt::format("the boxes' users cannot read {}, which is mounted as {}: chmod -R o+rX {}",
                    mount.from, mount.to, mount.from));
  }
  return Unavailable(fmt::format("a box opened but /bin/sh did not run in it: {} {}{}",
                                 EnumName(report.outcome), report.cause, report.err));
}

// Boxes of root have users of their own, who get no further than anybody else.
Status BoxHost::Probe() {
  const Status status = ProbeBox();
  if (status.ok()) return status;
  const std::string what = "the sandbox cannot run here";
  if (!change_user_) return status.WithContext(what);
  std::vector<BoxMount> mounts = options_.mounts;
  if (!options_.root.empty()) mounts.push_back({options_.root, "/"});
  for (const BoxMount& mount : mounts) {
    const std::string closed = ClosedFolderAbove(mount.from);
    if (closed.empty()) continue;
    return Unavailable(
        fmt::format("{}: the boxes' users cannot reach {}, which is mounted as {}: "
                    "{} is closed to them. chmod o+x {}, or move it elsewhere",
                    what, mount.from, mount.to, closed, closed));
  }
  change_user_ = false;
  const Status second = ProbeBox();
  if (!second.ok()) return status.WithContext(what);
  if (!options_.own_user) {
    return Unavailable(
        fmt::format("{}: boxes run as the executor's own user alone ({}). "
                    "tools.own_user = true (--own-user) lets them",
                    what, status.message()));
  }
  LogOnce("boxes-as-root", LogLevel::kWarn,
          "boxes run as the executor's own user, as tools.own_user lets them",
          {{"cause", status.message()}});
  return Ok();
}

std::string BoxHost::Describe() const {
  return cgroups_ != nullptr ? cgroups_->Describe() : "no cgroups: " + degraded_;
}

std::vector<std::string> BoxHost::BubblewrapCommand(const std::vector<std::string>& command) const {
  std::vector<std::string> words = arguments_;
  words.pop_back();
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Result<std::unique_ptr<Box>> BoxHost::Open() {
  if (alive_.load() >= options_.boxes_max) {
    return Full(fmt::format("{} boxes are open, the maximum", options_.boxes_max));
  }
  return Start();
}

Result<std::unique_ptr<Box>> BoxHost::Start() {
  std::unique_ptr<Box> box(new Box(*this));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Unavailable(fmt::format("socketpair: {}", strerror(errno)));
  }
  box->socket_ = Fd(ends[0]);
  const Fd theirs = Above(Fd(ends[1]));
  box->complaints_ = Above(Fd(memfd_create("tidemill-box-stderr", MFD_CLOEXEC)));
  if (!theirs || !box->complaints_) {
    return Unavailable(fmt::format("descriptors for a box: {}", strerror(errno)));
  }
  const int yes = 1;
  setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
  const timeval patience = {20, 0};
  setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const Status spawned = Spawn(*box, theirs.get(), box->complaints_.get());
  if (!spawned.ok()) {
    if (box->cgroup_ != nullptr) (void)box->cgroup_->Remove();
    return spawned;
  }
  alive_.fetch_add(1);
  return box;
}

Status BoxHost::Spawn(Box& box, int socket, int complaints) {
  // Of the process, not of this host: two hosts must share neither cgroups nor users.
  static std::atomic<uint64_t> next_box{0};
  const uint64_t number = next_box.fetch_add(1);
  std::vector<std::string> words = {"tidemill-box", "launch", "-", "0"};
  if (change_user_) {
    const uint64_t user = static_cast<uint64_t>(getpid()) * options_.boxes_max + number;
    words[2] = std::to_string(kFirstUser + user % kUsers);
  }
  if (cgroups_ != nullptr) {
    auto made = cgroups_->Make(fmt::format("tidemill-{}-{}", getpid(), number));
    if (!made.ok()) return made.status();
    box.cgroup_ = std::move(*made);
    const auto& files = box.cgroup_->procs_files();
    words[3] = std::to_string(files.size());
    words.insert(words.end(), files.begin(), files.end());
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  for (std::string& word : arguments_) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  SpawnPlan plan;
  plan.Give(complaints, 1);
  plan.Give(complaints, 2);
  plan.Give(socket, BOX_SOCKET_FD);
  plan.Give(image_.get(), BOX_IMAGE_FD);
  const std::string program = fmt::format("/proc/self/fd/{}", static_cast<int>(BOX_IMAGE_FD));
  if (const int error = plan.Spawn(&box.outer_pid_, program.c_str(), pointers.data()); error != 0) {
    box.outer_pid_ = -1;
    return Unavailable(fmt::format("starting a box: {}", strerror(error)));
  }
  return Ok();
}

void BoxHost::Close(Closing closing) {
  MutexLock lock(mutex_);
  closing_.push_back(std::move(closing));
  changed_.NotifyAll();
}

void BoxHost::WaitForClosed() {
  MutexLock lock(mutex_);
  changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return closing_.empty() && !reaping_; });
}

void BoxHost::Reap() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stopping_ || !closing_.empty(); });
    if (closing_.empty()) return;
    Closing one = std::move(closing_.front());
    closing_.pop_front();
    reaping_ = true;
    lock.Unlock();
    int status = 0;
    while (waitpid(one.outer_pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (one.cgroup != nullptr) {
      const auto deadline = std::chrono::steady_clock::now() + kCgroupPatience;
      Status removed = one.cgroup->Remove();
      while (!removed.ok() && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(1));
        removed = one.cgroup->Remove();
      }
      if (!removed.ok())
        LogWarn("could not remove the cgroup of a box", {{"cause", removed.message()}});
    }
    alive_.fetch_sub(1);
    lock.Lock();
    reaping_ = false;
    changed_.NotifyAll();
  }
}

BoxHost::~BoxHost() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (reaper_.joinable()) reaper_.join();
}

}  // namespace tidemill
