// Keeps the beginning and the end of a stream of any length in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidemill {

class Capture {
 public:
  // Half of `keep_bytes` for each end.
  explicit Capture(size_t keep_bytes) : Capture(keep_bytes / 2, keep_bytes - keep_bytes / 2) {}
  Capture(size_t head_bytes, size_t tail_bytes) : head_max_(head_bytes), tail_max_(tail_bytes) {}

  void Add(std::string_view bytes);

  uint64_t total() const { return total_; }
  bool truncated() const { return total_ > head_.size() + tail_.size(); }
  // All of it, or both ends with a line between them that says how much is missing.
  std::string Text() const;

 private:
  size_t head_max_;
  size_t tail_max_;
  uint64_t total_ = 0;
  std::string head_;
  std::string tail_;  // a ring once it is full
  size_t tail_start_ = 0;
};

}  // namespace tidemill
