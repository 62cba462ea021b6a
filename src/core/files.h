// Reading files whole, and writing them so that they survive a crash. Errors name the path and the
// system's reason.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/fd.h"
#include "core/status.h"

namespace tidemill {

// "runs/a/config.toml: cannot open: Permission denied", as kNotFound where there is no such file
// (or, on a network file system, no longer), else as kUnavailable. `error` is an errno.
Status FileFailure(const std::string& path, std::string_view doing, int error);

// The size of a regular file; kInvalid: it is none.
Result<size_t> RegularFileSize(const Fd& fd, const std::string& path);

// kNotFound: no such file. kInvalid: it is larger than `bytes_max`, or no regular file.
Result<std::string> ReadFileBounded(const std::string& path, size_t bytes_max);

// All of `bytes`, in as many writes as it takes. `path` is for the message.
Status WriteAll(const Fd& fd, std::string_view bytes, const std::string& path);

// The file has `parts` one behind the other or, after a crash at any moment, what it had before:
// written under another name, synced, renamed, and the directory synced. On failure what was at
// `path` is untouched and the other name is gone. Parallel writers of one path do not disturb each
// other.
Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> parts);
Status WriteFileAtomically(const std::string& path, std::string_view content);

// Makes the directory and those above it that are missing; each is durable.
Status MakeDirectories(const std::string& path);

// Makes new entries of the directory, or the lack of removed ones, durable.
Status SyncDirectory(const std::string& path);

// The directory a path lies in; "." where it names none.
std::string ParentOf(const std::string& path);

}  // namespace tidemill
