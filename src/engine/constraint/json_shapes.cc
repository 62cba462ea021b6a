#include "engine/constraint/json_shapes.h"

#include <algorithm>
#include <utility>

#include "engine/constraint/number_network.h"

namespace tidemill {
namespace {

constexpr int kIndentMax = 20;

// Of keys that are written without escapes.
CharacterSet PlainCharacters() {
  CharacterSet plain;
  plain.Add(0x20, '"' - 1);
  plain.Add('"' + 1, '\\' - 1);
  plain.Add('\\' + 1, 0x7E);
  return plain;
}

}  // namespace

void JsonShapes::Items(NetworkState from, const std::vector<NetworkRule>& first,
                       const std::optional<NetworkRule>& rest, const JsonCounts& counts,
                       NetworkState to) {
  const size_t least = counts.least.value_or(0);
  const std::optional<size_t> most = counts.most;
  const NetworkState begin = builder_.NewState(), close = builder_.NewState();
  builder_.Bytes(from, '[', '[', begin);
  builder_.Bytes(Spaced(close), ']', ']', to);
  if (least == 0) builder_.Free(begin, close);
  NetworkState at = Spaced(begin);  // in front of item i
  for (size_t i = 0; !builder_.full(); ++i) {
    if (most && i >= *most) return;
    if (i >= first.size() && !rest) return;
    const NetworkState behind = builder_.NewState();
    builder_.Call(at, i < first.size() ? first[i] : *rest, behind);
    if (i + 1 >= least) builder_.Free(behind, close);
    const NetworkState comma = builder_.NewState();
    builder_.Bytes(behind, ',', ',', comma);
    const bool same = i >= first.size() && i + 1 >= least && !most;
    if (same) {
      const NetworkState next = Spaced(comma);
      return builder_.Free(next, at);
    }
    at = Spaced(comma);
  }
}

// The members of an object in their order, then others. at(i, n): in front of property i, with n
// members written; where nobody counts, n is 0 or 1.
void JsonShapes::Members(NetworkState from, const std::vector<JsonProperty>& properties,
                         const std::optional<NetworkRule>& extra, const JsonCounts& given,
                         NetworkState to) {
  const std::optional<size_t> least = given.least, most = given.most;
  const bool counts = least || most;
  const size_t columns = counts ? std::max(properties.size(), most.value_or(0)) + 1 : 2;
  const NetworkState begin = builder_.NewState(), close = builder_.NewState();
  builder_.Bytes(from, '{', '{', begin);
  builder_.Bytes(Spaced(close), '}', '}', to);
  std::vector<NetworkState> row(columns);
  for (size_t n = 0; n < columns; ++n) row[n] = n == 0 ? begin : builder_.NewState();
  const auto column_behind = [&](size_t n) { return counts ? n + 1 : size_t{1}; };
  for (const JsonProperty& property : properties) {
    if (builder_.full()) return;
    std::vector<NetworkState> next(columns);
    for (NetworkState& state : next) state = builder_.NewState();
    for (size_t n = 0; n < columns; ++n) {
      if (!property.required) builder_.Free(row[n], next[n]);
      if (column_behind(n) >= columns || (most && n >= *most)) continue;
      const NetworkState key = Separated(row[n], n > 0);
      Value(builder_.Text(key, property.key), property.value, next[column_behind(n)]);
    }
    row = std::move(next);
  }
  for (size_t n = 0; n < columns; ++n) {
    if (!least || n >= *least) builder_.Free(row[n], close);
    if (!extra || column_behind(n) >= columns || (most && n >= *most)) continue;
    const NetworkState key = Separated(row[n], n > 0), colon = builder_.NewState();
    builder_.Call(key, OtherKey(properties), colon);
    Value(colon, *extra, row[column_behind(n)]);
  }
}

void JsonShapes::Value(NetworkState from, NetworkRule value, NetworkState to) {
  const NetworkState behind = builder_.NewState();
  builder_.Bytes(from, ':', ':', behind);
  builder_.Call(Spaced(behind), value, to);
}

// In front of a key: behind a comma where one was written before it.
NetworkState JsonShapes::Separated(NetworkState from, bool comma) {
  if (!comma) return Spaced(from);
  const NetworkState behind = builder_.NewState();
  builder_.Bytes(from, ',', ',', behind);
  return Spaced(behind);
}

// A key that none of the properties has, without escapes: the same key could be written with one.
NetworkRule JsonShapes::OtherKey(const std::vector<JsonProperty>& properties) {
  std::vector<std::string> keys;
  for (const JsonProperty& property : properties) {
    keys.push_back(property.key.substr(1, property.key.size() - 2));
  }
  std::sort(keys.begin(), keys.end());
  const auto [it, added] = other_keys_.try_emplace(keys, 0);
  if (!added) return it->second;
  it->second = builder_.NewRule();
  const NetworkState begin = builder_.NewState(), end = builder_.EndOf(it->second);
  builder_.Bytes(builder_.StartOf(it->second), '"', '"', begin);
  const NetworkState free = builder_.NewState();  // no key begins like this
  AddCharacter(builder_, free, PlainCharacters(), Writing::kPlain, free);
  builder_.Bytes(free, '"', '"', end);
  OtherThan(begin, keys, {0, keys.size(), 0}, free, end);
  return it->second;
}

// The keys of the range begin alike: what else may follow.
void JsonShapes::OtherThan(NetworkState from, const std::vector<std::string>& keys,
                           const KeyRange& range, NetworkState free, NetworkState end) {
  bool is_key = false;
  std::map<uint8_t, KeyRange> next;
  for (size_t i = range.first; i < range.last; ++i) {
    if (keys[i].size() == range.at) {
      is_key = true;
      continue;
    }
    const auto byte = static_cast<uint8_t>(keys[i][range.at]);
    next.try_emplace(byte, KeyRange{i, i, range.at + 1}).first->second.last = i + 1;
  }
  if (!is_key && range.at > 0) builder_.Bytes(from, '"', '"', end);
  const auto others = [&](uint32_t low, uint32_t high) {
    if (low <= high) {
      builder_.Bytes(from, static_cast<uint8_t>(low), static_cast<uint8_t>(high), free);
    }
  };
  for (const auto& [low, high] : PlainCharacters().Ranges()) {
    uint32_t begin = low;
    for (uint32_t c = low; c <= high && !builder_.full(); ++c) {
      const auto keyed = next.find(static_cast<uint8_t>(c));
      if (keyed == next.end()) continue;
      others(begin, c - 1);
      begin = c + 1;
      const NetworkState state = builder_.NewState();
      builder_.Bytes(from, keyed->first, keyed->first, state);
      OtherThan(state, keys, keyed->second, free, end);
    }
    others(begin, high);
  }
}

// White space, as much as people write: nothing, a blank, or a line with its indentation.
NetworkState JsonShapes::Spaced(NetworkState from) {
  if (space_ < 0) {
    space_ = builder_.NewRule();
    const NetworkState start = builder_.StartOf(space_), end = builder_.EndOf(space_);
    builder_.Free(start, end);
    builder_.Bytes(start, ' ', ' ', end);
    NetworkState indent = builder_.NewState();
    builder_.Bytes(start, '\n', '\n', indent);
    for (int i = 0; i < kIndentMax; ++i) {
      builder_.Free(indent, end);
      const NetworkState next = builder_.NewState();
      builder_.Bytes(indent, ' ', ' ', next);
      builder_.Bytes(indent, '\t', '\t', next);
      indent = next;
    }
    builder_.Free(indent, end);
  }
  const NetworkState behind = builder_.NewState();
  builder_.Call(from, space_, behind);
  return behind;
}

NetworkRule JsonShapes::AnyString() {
  if (string_ >= 0) return string_;
  string_ = builder_.NewRule();
  const NetworkState inside = builder_.NewState();
  builder_.Bytes(builder_.StartOf(string_), '"', '"', inside);
  AddJsonCharacter(builder_, inside, inside);
  builder_.Bytes(inside, '"', '"', builder_.EndOf(string_));
  return string_;
}

NetworkRule JsonShapes::Any() {
  if (any_ >= 0) return any_;
  any_ = builder_.NewRule();
  const NetworkState start = builder_.StartOf(any_), end = builder_.EndOf(any_);
  for (const char* word : {"true", "false", "null"}) builder_.TextTo(start, word, end);
  AddNumber(builder_, start, {}, end);
  builder_.Call(start, AnyString(), end);
  Items(start, {}, any_, {}, end);
  builder_.Call(start, AnyObject(), end);
  return any_;
}

NetworkRule JsonShapes::AnyObject() {
  if (any_object_ >= 0) return any_object_;
  any_object_ = builder_.NewRule();
  const NetworkState start = builder_.StartOf(any_object_), end = builder_.EndOf(any_object_);
  const NetworkRule value = Any();
  const NetworkState begin = builder_.NewState(), close = builder_.NewState();
  builder_.Bytes(start, '{', '{', begin);
  builder_.Bytes(Spaced(close), '}', '}', end);
  builder_.Free(begin, close);
  const NetworkState key = Spaced(begin), colon = builder_.NewState(), behind = builder_.NewState(),
                     comma = builder_.NewState();
  builder_.Call(key, AnyString(), colon);
  Value(colon, value, behind);
  builder_.Free(behind, close);
  builder_.Bytes(behind, ',', ',', comma);
  builder_.Free(Spaced(comma), key);
  return any_object_;
}

}  // namespace tidemill
