#include "cli/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "core/blas.h"
#include "core/threads.h"

namespace tidemill {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// The value behind "name : " or "name: " in a text of such lines; "" when there is none.
std::string ValueOf(std::string_view text, std::string_view name) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

bool HasWord(const std::string& words, const std::string& word) {
  return (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

// Whether an empty cgroup can be made under `parent`, by making one.
bool CanMakeCgroup(const std::string& parent) {
  const std::string child = parent + "/tidemill-doctor-" + std::to_string(getpid());
  if (mkdir(child.c_str(), 0755) != 0) return false;
  rmdir(child.c_str());
  return true;
}

std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

constexpr const char* kUserNamespaceFix =
    "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 (where present: "
    "kernel.apparmor_restrict_unprivileged_userns=0); in a container allow unshare and mount, or "
    "run it with --privileged";

}  // namespace

std::string_view FindingName(Finding finding) {
  switch (finding) {
    case Finding::kGood:
      return "ok";
    case Finding::kInfo:
      return "info";
    case Finding::kWarning:
      return "warning";
    case Finding::kMissing:
      return "missing";
  }
  return "missing";
}

namespace {

// The names of those flags that the CPU has, with commas.
std::string UnitsOf(const std::string& flags,
                    std::initializer_list<std::pair<const char*, const char*>> units) {
  std::string names;
  for (const auto& [flag, name] : units) {
    if (HasWord(flags, flag)) names += std::string(names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace

MachineCheck CheckCpu(std::string_view cpuinfo, int cores) {
  const std::string flags = ValueOf(cpuinfo, "flags");
  const std::string vector_units = UnitsOf(flags, {{"avx2", "AVX2"},
                                                   {"fma", "FMA"},
                                                   {"avx512f", "AVX-512"},
                                                   {"avx512_bf16", "AVX-512 BF16"},
                                                   {"amx_bf16", "AMX BF16"}});
  const std::string model = ValueOf(cpuinfo, "model name");
  MachineCheck check{"cpu", Finding::kGood, "", ""};
  check.detail = fmt::format("{} core{}, {}; {}", cores, cores == 1 ? "" : "s",
                             model.empty() ? "model unknown" : model,
                             vector_units.empty() ? "no AVX2" : vector_units);
  if (!flags.empty() && !HasWord(flags, "avx2")) {
    check.finding = Finding::kWarning;
    check.fix = "a CPU with AVX2, several times faster at tensor work";
  }
  return check;
}

// As src/model/torch/forward.cc decides.
MachineCheck CheckBfloat16(std::string_view cpuinfo) {
  const std::string units = UnitsOf(ValueOf(cpuinfo, "flags"),
                                    {{"avx512_bf16", "AVX-512 BF16"}, {"amx_bf16", "AMX BF16"}});
  return {"bfloat16", Finding::kInfo,
          "on the CPU: kept in bfloat16, multiplied in float32" +
              (units.empty() ? "" : "; " + units + " is not used"),
          ""};
}

MachineCheck CheckMemory() {
  const std::string meminfo = ReadText("/proc/meminfo");
  const double total = std::strtod(ValueOf(meminfo, "MemTotal").c_str(), nullptr) / (1 << 20);
  const double available =
      std::strtod(ValueOf(meminfo, "MemAvailable").c_str(), nullptr) / (1 << 20);
  MachineCheck check{"memory", Finding::kGood, "", ""};
  check.detail = fmt::format("{:.1f} GiB, {:.1f} GiB available", total, available);
  if (available < 2) {
    check.finding = Finding::kWarning;
    check.fix = "at least 2 GiB available, to build and to train the demo";
  }
  return check;
}

MachineCheck CheckDisk(const std::string& folder) {
  struct statvfs fs {};
  MachineCheck check{"disk", Finding::kGood, "", ""};
  if (statvfs(folder.c_str(), &fs) != 0) {
    return {"disk", Finding::kMissing, folder + " cannot be read", "run in a folder that exists"};
  }
  const double free =
      static_cast<double>(fs.f_bavail) * static_cast<double>(fs.f_frsize) / (1 << 30);
  check.detail = fmt::format("{:.1f} GiB free in {}", free, folder);
  if (free < 2) {
    check.finding = Finding::kWarning;
    check.fix = "free 2 GiB, or store runs elsewhere";
  }
  return check;
}

MachineCheck CheckBlasOfTorch() {
  const BlasInfo blas = CheckBlas();
  MachineCheck check{"blas", Finding::kGood, "", blas.fix};
  check.detail = std::string(BlasName(blas.kind));
  if (!blas.file.empty()) check.detail += " in " + blas.file;
  if (!blas.details.empty()) check.detail += " (" + blas.details + ")";
  if (!blas.warning.empty()) {
    check.finding = Finding::kWarning;
    check.detail = blas.warning;
  } else if (blas.kind == BlasKind::kNone) {
    check.finding = Finding::kInfo;
    check.detail = "none loaded: built without libtorch";
  }
  return check;
}

MachineCheck CheckBubblewrap() {
  const ProcessOutput version = RunProcess({"bwrap", "--version"}, seconds(5));
  if (!version.started) {
    return {"bubblewrap", Finding::kMissing, "not installed; tools cannot be isolated",
            "apt-get install bubblewrap"};
  }
  const ProcessOutput box =
      RunProcess({"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs",
                  "/tmp", "--unshare-all", "--die-with-parent", "true"},
                 seconds(10));
  if (box.started && box.exit_code == 0) {
    return {"bubblewrap", Finding::kGood, OneLine(version.output) + ", can create boxes", ""};
  }
  return {"bubblewrap", Finding::kMissing,
          OneLine(version.output) + ", but cannot create a box: " + OneLine(box.output),
          kUserNamespaceFix};
}

MachineCheck CheckUserNamespaces() {
  const ProcessOutput tried =
      RunProcess({"unshare", "--user", "--map-root-user", "true"}, seconds(5));
  if (tried.started && tried.exit_code == 0) {
    return {"user namespaces", Finding::kGood,
            "available; at most " + FirstLine(ReadText("/proc/sys/user/max_user_namespaces")), ""};
  }
  const bool root = geteuid() == 0;
  return {"user namespaces", root ? Finding::kInfo : Finding::kMissing,
          "not available: " + OneLine(tried.output), kUserNamespaceFix};
}

MachineCheck CheckCgroups() {
  const std::string root = "/sys/fs/cgroup";
  const std::string fix =
      "run as root, or as a service with Delegate=yes; without cgroups the limits apply to each "
      "process of a box, not to all of them together";
  std::string writable, present;
  const bool version2 = std::filesystem::exists(root + "/cgroup.controllers");
  if (version2) {
    const std::string own = root + CgroupPathOf("");
    present = FirstLine(ReadText(own + "/cgroup.controllers"));
    if (CanMakeCgroup(own)) writable = present;
  } else {
    for (const char* controller : {"memory", "pids", "cpu", "cpuacct", "freezer"}) {
      std::string folder = root + "/" + controller;
      if (!std::filesystem::exists(folder)) continue;
      present += (present.empty() ? "" : " ") + std::string(controller);
      // In a container the path of the host's hierarchy may not be there.
      if (const std::string own = folder + CgroupPathOf(controller); std::filesystem::exists(own)) {
        folder = own;
      }
      if (CanMakeCgroup(folder))
        writable += (writable.empty() ? "" : " ") + std::string(controller);
    }
  }
  if (present.empty()) return {"cgroups", Finding::kWarning, "not mounted", fix};
  const std::string kind = version2 ? "version 2" : "version 1";
  if (!HasWord(writable, "memory") || !HasWord(writable, "pids")) {
    return {"cgroups", Finding::kWarning,
            fmt::format("{}, controllers {}; writable: {}", kind, present,
                        writable.empty() ? "none" : writable),
            fix};
  }
  return {"cgroups", Finding::kGood, kind + ", writable controllers: " + writable, ""};
}

MachineCheck CheckSeccomp() {
  const std::string actions = FirstLine(ReadText("/proc/sys/kernel/seccomp/actions_avail"));
  // EINVAL: the kernel was built without it.
  if (actions.empty() && prctl(PR_GET_SECCOMP) < 0) {
    return {"seccomp", Finding::kMissing, "not in this kernel",
            "a kernel with CONFIG_SECCOMP_FILTER"};
  }
  return {"seccomp", Finding::kGood, actions.empty() ? "present" : "actions: " + actions, ""};
}

MachineCheck CheckProgram(const ProgramWanted& wanted) {
  std::vector<std::string> command = {wanted.program};
  command.insert(command.end(), wanted.arguments.begin(), wanted.arguments.end());
  const ProcessOutput asked = RunProcess(command, seconds(10));
  if (!asked.started || asked.exit_code != 0) {
    return {wanted.program, wanted.needed ? Finding::kMissing : Finding::kWarning,
            (asked.started ? "does not run; needed for " : "not found; needed for ") + wanted.why,
            "apt-get install " + wanted.package};
  }
  return {wanted.program, Finding::kGood, FirstLine(asked.output), ""};
}

MachineCheck CheckCuda() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {"cuda", Finding::kInfo, "no driver (libcuda.so.1); using the CPU",
            "with an NVIDIA GPU: install its driver and build with -DTIDEMILL_TORCH_ROOT=DIR, a "
            "libtorch with CUDA"};
  }
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  auto count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
  auto name = reinterpret_cast<int (*)(char*, int, int)>(dlsym(library, "cuDeviceGetName"));
  int devices = 0;
  if (init == nullptr || count == nullptr || init(0) != 0 || count(&devices) != 0 || devices == 0) {
    return {"cuda", Finding::kWarning, "the driver is installed but shows no GPU",
            "check nvidia-smi, and that /dev/nvidia* can be opened"};
  }
  char first[256] = "";
  if (name != nullptr) name(first, sizeof first - 1, 0);
  return {"cuda", Finding::kGood,
          fmt::format("{} GPU{}, {}", devices, devices == 1 ? "" : "s", first), ""};
}

std::vector<MachineCheck> CheckMachine() {
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored).string();
  const std::string cpuinfo = ReadText("/proc/cpuinfo");
  std::vector<MachineCheck> checks = {CheckCpu(cpuinfo, AvailableCores()),
                                      CheckBfloat16(cpuinfo),
                                      CheckMemory(),
                                      CheckDisk(here.empty() ? "." : here),
                                      CheckBlasOfTorch(),
                                      CheckCuda(),
                                      CheckBubblewrap(),
                                      CheckUserNamespaces(),
                                      CheckCgroups(),
                                      CheckSeccomp()};
  for (const ProgramWanted& wanted : std::initializer_list<ProgramWanted>{
           {"gcc", {"--version"}, "tasks in C", "gcc"},
           {"g++", {"--version"}, "tasks in C++", "g++"},
           {"tcc", {"-v"}, "tasks in C, compiled fast", "tcc"},
           {"cppcheck", {"--version"}, "the lint tool", "cppcheck", false},
           {"python3", {"--version"}, "tasks in Python", "python3"},
           {"redis-server", {"--version"}, "runs on many machines", "redis-server", false}}) {
    checks.push_back(CheckProgram(wanted));
  }
  return checks;
}

}  // namespace tidemill
