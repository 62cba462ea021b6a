// Small files and directories, durably. Errors name the path and the system's reason.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// The file has `content` or, after a crash at any moment, what it had before: written under another
// name, synced, renamed, and the directory synced. Parallel writers of one path do not disturb each
// other.
Status WriteFileAtomically(const std::string& path, std::string_view content);

// kNotFound: no such file. kFull: larger than `bytes_max`.
Result<std::string> ReadWholeFile(const std::string& path, size_t bytes_max);

// Makes new entries of the directory, or the lack of removed ones, durable.
Status SyncDirectory(const std::string& path);

// Makes the directory and those above it that are missing; each is durable.
Status MakeDirectories(const std::string& path);

// "runs/a/config.toml: cannot open: Permission denied", as kNotFound where there is no such file,
// else as kUnavailable. `error` is an errno.
Status FileFailure(const std::string& path, std::string_view doing, int error);

}  // namespace tidemill
