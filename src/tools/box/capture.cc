#include "tools/box/capture.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemill {

void Capture::Add(std::string_view bytes) {
  total_ += bytes.size();
  const size_t to_head = std::min(bytes.size(), head_max_ - head_.size());
  head_.append(bytes.substr(0, to_head));
  bytes.remove_prefix(to_head);
  if (bytes.size() > tail_max_) bytes.remove_prefix(bytes.size() - tail_max_);
  const size_t to_end = std::min(bytes.size(), tail_max_ - tail_.size());
  tail_.append(bytes.substr(0, to_end));
  bytes.remove_prefix(to_end);
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), tail_max_ - tail_start_);
    std::copy_n(bytes.data(), part, tail_.data() + tail_start_);
    tail_start_ = (tail_start_ + part) % tail_max_;
    bytes.remove_prefix(part);
  }
}

std::string Capture::Text() const {
  std::string text = head_;
  if (truncated()) {
    text += fmt::format("{}[.. {} bytes cut ..]\n", head_.empty() ? "" : "\n",
                        total_ - head_.size() - tail_.size());
  }
  text.append(tail_, tail_start_);
  text.append(tail_, 0, tail_start_);
  return text;
}

}  // namespace tidemill
