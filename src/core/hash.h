// SHA-256, and the hash of a workspace tree that is built from it.
#pragma once

#include <string>
#include <string_view>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Lower-case hex, 64 digits.
std::string Sha256Hex(std::string_view bytes);

// The same, fed piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Add(std::string_view bytes);
  // Once, at the end.
  std::string Hex();

 private:
  void* state_;
};

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
