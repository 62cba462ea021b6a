// Which system calls a Python answer may make: those of computing and of reading files.
#pragma once

#include <string>

#include "core/status.h"

namespace tidemill {

// As the kernel takes it (struct sock_filter[]). Everything that is not allowed is EPERM: starting,
// signalling or tracing processes, threads, sockets, opening a file for writing, changing the file
// system.
Result<std::string> BuildAnswerFilter();

}  // namespace tidemill
