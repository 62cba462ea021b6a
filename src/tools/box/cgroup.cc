#include "tools/box/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <map>
#include <sstream>

namespace tidemill {
namespace {

constexpr std::string_view kPrefix = "tidemill-";

std::string ReadFile(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t got = file ? read(file.get(), text, sizeof text) : -1;
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : std::string();
}

bool WriteFile(const std::string& path, std::string_view text) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool WriteNumber(const Fd& file, uint64_t value) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return pwrite(file.get(), text, static_cast<size_t>(end - text), 0) == end - text;
}

// The number behind `key` in a file of "key value" lines, or the file's only number for an empty
// key.
uint64_t ReadNumber(const Fd& file, std::string_view key) {
  char text[4096];
  const ssize_t got = file ? pread(file.get(), text, sizeof text, 0) : -1;
  if (got <= 0) return 0;
  std::string_view rest(text, static_cast<size_t>(got));
  while (!key.empty() && !rest.empty()) {
    if (rest.starts_with(key) && rest.size() > key.size() && rest[key.size()] == ' ') {
      rest.remove_prefix(key.size() + 1);
      break;
    }
    const size_t end = rest.find('\n');
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  uint64_t value = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return value;
}

struct Mount {
  std::string root;
  std::string point;
};

// Mount points of cgroup hierarchies by controller; "" is version 2.
std::map<std::string, Mount> ParseMounts(std::string_view mountinfo) {
  std::map<std::string, Mount> mounts;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
    std::string id, parent, device, root, point, type, source, options;
    head >> id >> parent >> device >> root >> point;
    tail >> type >> source >> options;
    if (type == "cgroup2") mounts[""] = {root, point};
    if (type != "cgroup") continue;
    std::istringstream words(options);
    for (std::string word; std::getline(words, word, ',');) {
      if (word == "memory" || word == "pids" || word == "cpuacct") mounts[word] = {root, point};
    }
  }
  return mounts;
}

// This process's own cgroup by controller; "" is version 2.
std::map<std::string, std::string> ParseOwn(std::string_view self_cgroup) {
  std::map<std::string, std::string> own;
  std::istringstream lines{std::string(self_cgroup)};
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (second == first + 1) own[""] = path;
    for (std::string name; std::getline(names, name, ',');) own[name] = path;
  }
  return own;
}

bool CanMakeIn(const std::string& folder) {
  const std::string trial = fmt::format("{}/{}{}-trial", folder, kPrefix, getpid());
  if (mkdir(trial.c_str(), 0755) != 0) return false;
  rmdir(trial.c_str());
  return true;
}

// Where this process's own cgroup is in the file system, or the hierarchy's root where that is not
// there; empty if cgroups may be made in neither.
std::string Parent(const Mount& mount, std::string path) {
  if (mount.root != "/" && path.starts_with(mount.root)) path.erase(0, mount.root.size());
  if (path == "/" || path.find("/..") != std::string::npos) path.clear();
  for (const std::string& folder : {mount.point + path, mount.point}) {
    if (CanMakeIn(folder)) return folder;
  }
  return {};
}

bool HasControllers(const std::string& folder) {
  const std::string text = " " + ReadFile(folder + "/cgroup.subtree_control") + " ";
  return text.find("memory") != std::string::npos && text.find("pids") != std::string::npos;
}

// Version 2 hands controllers down only from a cgroup without processes of its own, so this process
// steps into a child where it is alone there, as a service with delegation is expected to.
bool DelegateControllers(const std::string& folder) {
  if (HasControllers(folder)) return true;
  const auto enable = [&] {
    (void)WriteFile(folder + "/cgroup.subtree_control", "+cpu");
    return WriteFile(folder + "/cgroup.subtree_control", "+memory +pids") && HasControllers(folder);
  };
  if (enable()) return true;
  const std::string only_us = fmt::format("{}\n", getpid());
  if (ReadFile(folder + "/cgroup.procs") != only_us) return false;
  const std::string child = folder + "/tidemill-main";
  if (mkdir(child.c_str(), 0755) != 0 && errno != EEXIST) return false;
  return WriteFile(child + "/cgroup.procs", only_us) && enable();
}

bool IsAlive(pid_t pid) {
  return kill(pid, 0) == 0 || errno != ESRCH;
}

void SweepFolder(const std::string& folder) {
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix)) continue;
    pid_t pid = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), pid);
    if (pid > 0 && !IsAlive(pid)) rmdir(fmt::format("{}/{}", folder, name).c_str());
  }
  closedir(entries);
}

}  // namespace

std::unique_ptr<CgroupRoot> CgroupRoot::Find(std::string_view mountinfo,
                                             std::string_view self_cgroup, std::string* why) {
  const auto mounts = ParseMounts(mountinfo);
  const auto own = ParseOwn(self_cgroup);
  const auto parent = [&](const std::string& controller) -> std::string {
    const auto mount = mounts.find(controller);
    const auto path = own.find(controller);
    if (mount == mounts.end() || path == own.end()) return {};
    return Parent(mount->second, path->second);
  };
  auto root = std::make_unique<CgroupRoot>();
  if (mounts.count("memory") != 0 && mounts.count("pids") != 0) {
    const std::string memory = parent("memory"), pids = parent("pids"), cpu = parent("cpuacct");
    if (memory.empty() || pids.empty()) {
      *why = "no permission to create cgroups (v1)";
      return nullptr;
    }
    root->parents_ = {memory, pids};
    if (!cpu.empty()) root->parents_.push_back(cpu);
    return root;
  }
  if (mounts.count("") == 0) {
    *why = "no cgroup hierarchy with memory and pids is mounted";
    return nullptr;
  }
  const std::string folder = parent("");
  if (folder.empty() || !DelegateControllers(folder)) {
    *why = folder.empty() ? "no permission to create cgroups (v2)"
                          : "the memory and pids controllers are not delegated to " + folder;
    return nullptr;
  }
  root->version2_ = true;
  root->parents_ = {folder};
  return root;
}

std::string CgroupRoot::Describe() const {
  if (version2_) return "cgroup v2";
  return parents_.size() == 3 ? "cgroup v1 (memory, pids, cpuacct)" : "cgroup v1 (memory, pids)";
}

void CgroupRoot::Sweep() const {
  for (const std::string& folder : parents_) SweepFolder(folder);
}

Result<std::unique_ptr<Cgroup>> CgroupRoot::Make(const std::string& name) const {
  std::vector<std::string> made;
  for (const std::string& parent : parents_) {
    const std::string folder = parent + "/" + name;
    if (mkdir(folder.c_str(), 0755) != 0) {
      const int error = errno;
      for (const std::string& earlier : made) rmdir(earlier.c_str());
      return Unavailable(fmt::format("creating the cgroup {}: {}", folder, strerror(error)));
    }
    made.push_back(folder);
  }
  return Cgroup::Adopt(std::move(made), version2_);
}

Result<std::unique_ptr<Cgroup>> Cgroup::Adopt(std::vector<std::string> directories, bool version2) {
  auto group = std::make_unique<Cgroup>();
  group->version2_ = version2;
  group->directories_ = std::move(directories);
  for (const std::string& folder : group->directories_) {
    group->procs_files_.push_back(folder + "/cgroup.procs");
  }
  const auto open_in = [&](size_t index, const char* file, int flags) {
    return index < group->directories_.size()
               ? Fd(open((group->directories_[index] + "/" + file).c_str(), flags | O_CLOEXEC))
               : Fd();
  };
  if (version2) {
    group->memory_limit_ = open_in(0, "memory.max", O_WRONLY);
    group->swap_limit_ = open_in(0, "memory.swap.max", O_WRONLY);
    group->oom_ = open_in(0, "memory.events", O_RDONLY);
    group->peak_ = open_in(0, "memory.peak", O_RDWR);
    if (!group->peak_) group->peak_ = open_in(0, "memory.peak", O_RDONLY);
    group->processes_limit_ = open_in(0, "pids.max", O_WRONLY);
    group->refused_ = open_in(0, "pids.events", O_RDONLY);
    group->cpu_ = open_in(0, "cpu.stat", O_RDONLY);
    (void)WriteFile(group->directories_[0] + "/memory.oom.group", "1");
  } else {
    group->memory_limit_ = open_in(0, "memory.limit_in_bytes", O_WRONLY);
    group->swap_limit_ = open_in(0, "memory.memsw.limit_in_bytes", O_WRONLY);
    group->oom_ = open_in(0, "memory.oom_control", O_RDONLY);
    group->peak_ = open_in(0, "memory.max_usage_in_bytes", O_RDWR);
    group->processes_limit_ = open_in(1, "pids.max", O_WRONLY);
    group->refused_ = open_in(1, "pids.events", O_RDONLY);
    group->cpu_ = open_in(2, "cpuacct.usage", O_RDONLY);
  }
  if (!group->memory_limit_ || !group->oom_ || !group->processes_limit_ || !group->refused_) {
    (void)group->Remove();
    return Unavailable("the cgroup of a box lacks its memory or pids files");
  }
  return group;
}

Status Cgroup::SetLimits(const CgroupLimits& limits) {
  if (!WriteNumber(memory_limit_, limits.memory_bytes)) {
    return Unavailable(fmt::format("limiting a box's memory: {}", strerror(errno)));
  }
  // Where there is swap, none of it: version 1 limits memory and swap together.
  if (swap_limit_) (void)WriteNumber(swap_limit_, version2_ ? 0 : limits.memory_bytes);
  if (!WriteNumber(processes_limit_, limits.processes)) {
    return Unavailable(fmt::format("limiting a box's processes: {}", strerror(errno)));
  }
  return Ok();
}

CgroupReading Cgroup::Read() const {
  CgroupReading reading;
  reading.oom_kills = ReadNumber(oom_, "oom_kill");
  reading.refused_processes = ReadNumber(refused_, "max");
  reading.cpu_ns = version2_ ? ReadNumber(cpu_, "usage_usec") * 1000 : ReadNumber(cpu_, "");
  reading.peak_memory_bytes = ReadNumber(peak_, "");
  return reading;
}

void Cgroup::ResetPeak() {
  if (peak_) (void)WriteNumber(peak_, 0);
}

Status Cgroup::Remove() {
  while (!directories_.empty()) {
    if (rmdir(directories_.back().c_str()) != 0 && errno != ENOENT) {
      return errno == EBUSY ? Full("processes are still in " + directories_.back())
                            : Unavailable(fmt::format("removing {}: {}", directories_.back(),
                                                      strerror(errno)));
    }
    directories_.pop_back();
  }
  return Ok();
}

}  // namespace tidemill
