#include "tools/tool_cache.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <map>

#include "core/hash.h"

namespace tidemill {
namespace {

std::string Serialize(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeWithCachedSizes(&coded);
  }
  return bytes;
}

// So that no two lists of parts give the same text.
void AddPart(std::string* text, std::string_view part) {
  *text += std::to_string(part.size());
  *text += ':';
  *text += part;
}

}  // namespace

std::string ToolCacheKey(const v1::ToolRequest& request) {
  v1::Tree tree = request.tree();
  std::map<std::string, int> places;
  for (int i = 0; i < tree.files_size(); ++i) places[tree.files(i).path()] = i;
  for (const v1::File& edit : request.edits()) {
    const auto found = places.find(edit.path());
    if (found != places.end()) {
      *tree.mutable_files(found->second) = edit;
    } else {
      places[edit.path()] = tree.files_size();
      *tree.add_files() = edit;
    }
  }
  std::string text;
  AddPart(&text, request.tool());
  AddPart(&text, request.arguments_json());
  AddPart(&text, TreeHash(tree));
  (void)request.limits().ByteSizeLong();
  AddPart(&text, Serialize(request.limits()));
  (void)request.grading().ByteSizeLong();
  AddPart(&text, Serialize(request.grading()));
  AddPart(&text, std::to_string(request.text_limit()));
  return Sha256Hex(text);
}

bool Cacheable(const v1::ToolResult& result) {
  return result.outcome() != v1::OUTCOME_UNAVAILABLE &&
         result.outcome() != v1::OUTCOME_UNSPECIFIED && result.outcome() != v1::OUTCOME_TIMEOUT;
}

std::optional<v1::ToolResult> ToolCache::Find(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  v1::ToolResult result;
  if (found == entries_.end() || !result.ParseFromString(found->second->bytes)) {
    ++misses_;
    return std::nullopt;
  }
  ++hits_;
  order_.splice(order_.end(), order_, found->second);
  result.set_cached(true);
  return result;
}

void ToolCache::Add(const std::string& key, const v1::ToolResult& result) {
  if (!Cacheable(result)) return;
  std::string bytes = result.SerializeAsString();
  if (bytes.size() > bytes_max_ / 4) return;
  std::lock_guard lock(mutex_);
  if (entries_.count(key) != 0) return;
  bytes_ += bytes.size();
  order_.push_back({key, std::move(bytes)});
  entries_[key] = std::prev(order_.end());
  while (order_.size() > entries_max_ || bytes_ > bytes_max_) {
    bytes_ -= order_.front().bytes.size();
    entries_.erase(order_.front().key);
    order_.pop_front();
  }
}

uint64_t ToolCache::hits() const {
  std::lock_guard lock(mutex_);
  return hits_;
}

uint64_t ToolCache::misses() const {
  std::lock_guard lock(mutex_);
  return misses_;
}

size_t ToolCache::size() const {
  std::lock_guard lock(mutex_);
  return order_.size();
}

}  // namespace tidemill
