#include "core/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "core/fd.h"
#include "core/threads.h"

namespace tidemill {
namespace {

// The number that stands after `key` in a file of the kernel; 0: none.
uint64_t KernelNumber(const std::string& path, std::string_view key) {
  // These have no size before they are read.
  std::string text;
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return 0;
  char buffer[4096];
  for (ssize_t n = 0; text.size() < sizeof(buffer) * 4;
       text.append(buffer, static_cast<size_t>(n))) {
    n = read(fd.get(), buffer, sizeof(buffer));
    if (n <= 0) break;
  }
  size_t at = text.find(key);
  if (at == std::string::npos) return 0;
  at = text.find_first_not_of(": \t", at + key.size());
  uint64_t number = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at, text.data() + text.size(), number);
  return number;
}

}  // namespace

uint64_t AvailableMemoryBytes() {
  const uint64_t machine = KernelNumber("/proc/meminfo", "MemAvailable") * 1024;
  const std::string group = "/sys/fs/cgroup" + CgroupPathOf("");
  const uint64_t most = KernelNumber(group + "/memory.max", "");
  if (most == 0) return machine;
  // Pages of files that nobody wrote to go when they are needed.
  const uint64_t used = KernelNumber(group + "/memory.current", "");
  const uint64_t files = KernelNumber(group + "/memory.stat", "inactive_file");
  const uint64_t left = most > used ? most - used : 0;
  return machine == 0 ? left + files : std::min(machine, left + files);
}

void UseHugePages(void* data, size_t bytes) {
  constexpr uintptr_t kHuge = uintptr_t{2} << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kHuge - 1) / kHuge * kHuge;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kHuge * kHuge;
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace tidemill
