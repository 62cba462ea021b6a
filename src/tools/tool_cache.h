// Answers to requests that were carried out before. Two requests are the same if tool, arguments,
// files, limits and grading are; who asks does not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "proto/tidemill.pb.h"

namespace tidemill {

// A hash of what the answer depends on.
std::string ToolCacheKey(const v1::ToolRequest& request);

// Whether an answer may be given again: not a failure of ours, not a timeout, which may be the
// machine's doing.
bool Cacheable(const v1::ToolResult& result);

// Bounded in entries and bytes; the longest unused goes first. Thread-safe.
class ToolCache {
 public:
  ToolCache(size_t entries_max, size_t bytes_max)
      : entries_max_(entries_max), bytes_max_(bytes_max) {}

  // With `cached` set. The names of the request (id, episode) are the caller's to fill in.
  std::optional<v1::ToolResult> Find(const std::string& key);
  void Add(const std::string& key, const v1::ToolResult& result);

  uint64_t hits() const;
  uint64_t misses() const;
  size_t size() const;

 private:
  struct Entry {
    std::string key;
    std::string bytes;
  };
  const size_t entries_max_;
  const size_t bytes_max_;
  mutable std::mutex mutex_;
  std::list<Entry> order_;  // guarded by mutex_; longest unused first
  std::unordered_map<std::string, std::list<Entry>::iterator> entries_;  // guarded by mutex_
  size_t bytes_ = 0;                                                     // guarded by mutex_
  uint64_t hits_ = 0, misses_ = 0;                                       // guarded by mutex_
};

}  // namespace tidemill
