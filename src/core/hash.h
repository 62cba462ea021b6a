// SHA-256, and the hash of a workspace tree that is built from it.
#pragma once

#include <string>
#include <string_view>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Lower-case hex, 64 digits.
std::string Sha256Hex(std::string_view bytes);

// Fills in the missing hash of every file that has its content, and sorts the files by path.
void NormalizeTree(v1::Tree& tree);

// The identity of a workspace: covers path, executable bit and content hash of every file. The same
// for the same files in any order, whether contents travel inside or by hash.
std::string TreeHash(const v1::Tree& tree);

// Content up to this size travels inside messages; more goes through the blob store.
inline constexpr size_t kInlineContentMax = 16 * 1024;

}  // namespace tidemill
