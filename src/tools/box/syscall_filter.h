// Which system calls a box refuses: what a compiler and its output never need.
#pragma once

#include <string>

#include "core/status.h"

namespace tidemill {

// The filter as the kernel takes it (struct sock_filter[]). Calls of another architecture (the
// 32-bit entry, x32) end the process; name-space, mount, tracing, keyring, bpf and module calls are
// EPERM; io_uring and clone3 are ENOSYS, so that libraries fall back; a socket of any family but
// AF_UNIX cannot be made, which covers AF_VSOCK, the one that a network namespace does not.
Result<std::string> BuildSyscallFilter();

}  // namespace tidemill
