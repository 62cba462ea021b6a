#include "core/ids.h"

#include <charconv>

#include "core/random.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

// All of `text` is a decimal number that fits; no sign, no space.
template <typename T>
bool ParseNumber(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Takes what follows the last `mark` off the end of `text`.
bool TakeLast(std::string_view& text, char mark, std::string_view& part) {
  const size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return false;
  part = text.substr(at + 1);
  text = text.substr(0, at);
  return true;
}

}  // namespace

TrajectoryKey TrajectoryKey::From(const v1::TrajectoryId& id) {
  return {id.task(), id.group(), id.member(), id.attempt()};
}

v1::TrajectoryId TrajectoryKey::ToProto() const {
  v1::TrajectoryId id;
  id.set_task(task);
  id.set_group(group);
  id.set_member(member);
  id.set_attempt(attempt);
  return id;
}

std::string TrajectoryKey::ToString() const {
  return task + '/' + std::to_string(group) + '/' + std::to_string(member) + '#' +
         std::to_string(attempt);
}

Result<TrajectoryKey> TrajectoryKey::Parse(std::string_view text) {
  std::string_view rest = text, group, member, attempt;
  TrajectoryKey key;
  if (!TakeLast(rest, '#', attempt) || !TakeLast(rest, '/', member) ||
      !TakeLast(rest, '/', group) || rest.empty() || !ParseNumber(group, key.group) ||
      !ParseNumber(member, key.member) || !ParseNumber(attempt, key.attempt)) {
    return Invalid("a trajectory is named task/group/member#attempt, not \"" + std::string(text) +
                   "\"");
  }
  key.task = rest;
  return key;
}

}  // namespace tidemill

size_t std::hash<tidemill::TrajectoryKey>::operator()(const tidemill::TrajectoryKey& key) const {
  const uint64_t member = uint64_t{key.member} << 32 | key.attempt;
  return tidemill::MixHash(tidemill::MixHash(tidemill::StableHash(key.task), key.group), member);
}
