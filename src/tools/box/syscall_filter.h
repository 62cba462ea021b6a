// Which system calls a box allows: what compilers, interpreters and their output need, on x86_64
// and aarch64.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct SyscallFilterOptions {
  bool cgroups = true;        // false: nobody counts memory that is no process's, so there is none
  bool loopback = false;      // sockets of the internet's families too: the box's own loopback
  uint32_t architecture = 0;  // as libseccomp names it (SCMP_ARCH_AARCH64); 0: this machine's
};

// The filter as the kernel takes it (struct sock_filter[]). A call that is not on the list is
// ENOSYS, those that kernels get later included. Calls of another architecture (the 32-bit entry,
// x32) end the process. A socket of any family but AF_UNIX (and where there is a loopback AF_INET,
// AF_INET6 and the routing part of AF_NETLINK) is EAFNOSUPPORT, which covers AF_VSOCK, the one that
// a network namespace does not. No process makes name spaces or sets the limits of
// another. kUnavailable: another architecture.
Result<std::string> BuildSyscallFilter(const SyscallFilterOptions& options);

// The rules that were added to libseccomp's `context` (scmp_filter_ctx), as the kernel takes them.
Result<std::string> ExportFilter(void* context);

}  // namespace tidemill
