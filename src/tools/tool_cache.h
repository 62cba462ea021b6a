// Remembers results of identical requests: same tool, arguments, files, tests and limits.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "proto/tidemill.pb.h"

namespace tidemill {

// The content hash of everything that decides a request's result.
std::string ToolRequestHash(const v1::ToolRequest& request);

// Least recently used results go first, when there are too many or they are too large together.
// Belongs to one loop.
class ToolCache {
 public:
  explicit ToolCache(size_t capacity, size_t bytes_max = size_t{64} << 20)
      : capacity_(capacity), bytes_max_(bytes_max) {}

  // The stored result, marked as cached; its request id and episode are those of the first asker.
  std::optional<v1::ToolResult> Find(const std::string& hash);
  // Failures of ours and requests cut off by the wall clock, which another run may not meet, are
  // not kept.
  void Store(const std::string& hash, const v1::ToolResult& result);

  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  struct Entry {
    std::string hash;
    v1::ToolResult result;
    size_t bytes = 0;
  };
  size_t capacity_;
  size_t bytes_max_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> index_;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
};

}  // namespace tidemill
