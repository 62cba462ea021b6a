#include "tools/tool_cache.h"

#include <google/protobuf/message.h>

#include <string_view>

#include "core/hash.h"

namespace tidemill {

std::string ToolRequestHash(const v1::ToolRequest& request) {
  std::string key;
  const auto add = [&key](std::string_view part) {
    key += std::to_string(part.size()) + ':';
    key += part;
  };
  const auto add_message = [&](const google::protobuf::Message& part) {
    key += std::to_string(part.ByteSizeLong()) + ':';
    part.AppendToString(&key);
  };
  add(request.tool());
  add(request.arguments_json());
  add(request.root());
  // The tree by its identity, so that it does not matter which contents travelled inside.
  add(TreeHash(request.tree()));
  add_message(request.limits());
  add_message(request.grading());
  for (const v1::File& edit : request.edits()) add_message(edit);
  key += std::to_string(request.text_limit());
  return Sha256Hex(key);
}

std::optional<v1::ToolResult> ToolCache::Find(const std::string& hash) {
  auto it = index_.find(hash);
  if (it == index_.end()) {
    ++misses_;
    return std::nullopt;
  }
  ++hits_;
  entries_.splice(entries_.begin(), entries_, it->second);
  v1::ToolResult result = it->second->result;
  result.set_cached(true);
  return result;
}

void ToolCache::Store(const std::string& hash, const v1::ToolResult& result) {
  if (capacity_ == 0 || index_.count(hash) != 0) return;
  if (result.outcome() == v1::OUTCOME_UNAVAILABLE || result.outcome() == v1::OUTCOME_UNSPECIFIED ||
      result.outcome() == v1::OUTCOME_TIMEOUT) {
    return;
  }
  const size_t bytes = result.ByteSizeLong();
  if (bytes > bytes_max_ / 4) return;
  bytes_ += bytes;
  entries_.push_front({hash, result, bytes});
  index_[hash] = entries_.begin();
  while (entries_.size() > capacity_ || bytes_ > bytes_max_) {
    bytes_ -= entries_.back().bytes;
    index_.erase(entries_.back().hash);
    entries_.pop_back();
  }
}

}  // namespace tidemill
