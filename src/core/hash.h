// SHA-256, and the hash of a workspace tree that is built from it.
#pragma once

#include <string>
#include <string_view>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Lower-case hex, 64 digits.
std::string Sha256Hex(std::string_view bytes);

// Gives every file that has its content the hash of that, and sorts the files by path.
void NormalizeTree(v1::Tree& tree);

// The identity of a workspace: covers path, executable bit and content hash of every file. The same
// for the same files in any order, whether contents travel inside or by hash.
std::string TreeHash(const v1::Tree& tree);

// Content up to this size travels inside messages; more goes through the blob store.
inline constexpr size_t kInlineContentMax = 16 * 1024;
// Where a tree has more than kInlineTreeMax in all, files of more than kInlineOfLargeMax do too:
// the tree of a repository is in every request.
inline constexpr size_t kInlineTreeMax = 256 * 1024;
inline constexpr size_t kInlineOfLargeMax = 512;

constexpr bool TravelsInside(size_t content_bytes, size_t tree_bytes) {
  return content_bytes <= (tree_bytes > kInlineTreeMax ? kInlineOfLargeMax : kInlineContentMax);
}

}  // namespace tidemill
