#include "engine/constraint/json_shapes.h"

#include <algorithm>
#include <utility>

#include "engine/constraint/number_network.h"

namespace tidemill {
namespace {

constexpr int kIndentMax = 20;
constexpr size_t kCountedItemsMax = 10'000;  // where more are allowed

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
  std::optional<size_t> most = counts.most;
  if (most) most = std::min(*most, std::max(least, kCountedItemsMax));
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

// Members are counted in columns: with n of them written. The last column stands for more, too,
// where there is no most.
struct JsonShapes::Rows {
  size_t least = 0;
  std::optional<size_t> most{};
  NetworkState close = 0;
  std::vector<NetworkState> keys{};  // by column: in front of a key, behind its comma

  std::optional<size_t> Behind(size_t column) const {
    if (most && column >= *most) return std::nullopt;
    return std::min(column + 1, keys.size() - 1);
  }
};

void JsonShapes::Members(NetworkState from, const std::vector<JsonProperty>& properties,
                         const std::optional<NetworkRule>& extra, const JsonCounts& counts,
                         NetworkState to) {
  Rows rows{.least = counts.least.value_or(0), .most = counts.most, .close = builder_.NewState()};
  rows.keys.resize(rows.most.value_or(rows.least) + 1);
  for (NetworkState& state : rows.keys) state = builder_.NewState();
  const NetworkState begin = builder_.NewState();
  builder_.Bytes(from, '{', '{', begin);
  builder_.Bytes(Spaced(rows.close), '}', '}', to);
  builder_.Free(Spaced(begin), rows.keys[0]);
  size_t required = static_cast<size_t>(std::count_if(properties.begin(), properties.end(),
                                                      [](const auto& p) { return p.required; }));
  if (required == 0 && rows.least == 0) builder_.Free(begin, rows.close);
  for (const JsonProperty& property : properties) {
    if (builder_.full()) return;
    if (property.required) --required;
    std::vector<NetworkState> next(rows.keys.size());
    for (NetworkState& state : next) state = builder_.NewState();
    for (size_t n = 0; n < next.size(); ++n) {
      if (!property.required) builder_.Free(rows.keys[n], next[n]);
      const std::optional<size_t> column = rows.Behind(n);
      if (!column) continue;
      const NetworkState behind = builder_.NewState();
      Value(builder_.Text(rows.keys[n], property.key), property.value, behind);
      if (required == 0 && *column >= rows.least) builder_.Free(behind, rows.close);
      Comma(behind, next[*column]);
    }
    rows.keys = std::move(next);
  }
  if (extra) OtherMembers(rows, properties, *extra);
}

// Two others may have the same key, so they count as one towards the least.
void JsonShapes::OtherMembers(const Rows& rows, const std::vector<JsonProperty>& properties,
                              NetworkRule value) {
  const NetworkRule key = OtherKey(properties);
  std::vector<NetworkState> behind(rows.keys.size());
  for (NetworkState& state : behind) state = builder_.NewState();
  const auto add = [&](NetworkState from, size_t column) {
    const NetworkState colon = builder_.NewState();
    builder_.Call(from, key, colon);
    Value(colon, value, behind[column]);
  };
  for (size_t n = 0; n < behind.size() && !builder_.full(); ++n) {
    builder_.Free(behind[n], rows.close);
    const std::optional<size_t> column = rows.Behind(n);
    if (!column || *column < rows.least) continue;
    add(rows.keys[n], *column);
    const NetworkState next = builder_.NewState();
    Comma(behind[n], next);
    add(next, *column);
  }
}

void JsonShapes::Value(NetworkState from, NetworkRule value, NetworkState to) {
  const NetworkState behind = builder_.NewState();
  builder_.Bytes(from, ':', ':', behind);
  builder_.Call(Spaced(behind), value, to);
}

void JsonShapes::Comma(NetworkState from, NetworkState to) {
  const NetworkState behind = builder_.NewState();
  builder_.Bytes(from, ',', ',', behind);
  builder_.Free(Spaced(behind), to);
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

// Inside of a string, with at most so many characters to come and its quote.
NetworkState JsonShapes::AtMost(size_t characters) {
  if (unbounded_ < 0) {
    string_end_ = builder_.NewState();
    builder_.Last(string_end_);
    unbounded_ = builder_.NewState();
    AddJsonCharacter(builder_, unbounded_, unbounded_);
    builder_.Bytes(unbounded_, '"', '"', string_end_);
    at_most_.push_back(builder_.NewState());
    builder_.Bytes(at_most_[0], '"', '"', string_end_);
  }
  while (at_most_.size() <= characters && !builder_.full()) {
    const NetworkState state = builder_.NewState();
    AddJsonCharacter(builder_, state, at_most_.back());
    builder_.Bytes(state, '"', '"', string_end_);
    if (builder_.full()) break;
    builder_.Alike(state, unbounded_, at_most_.size());
    at_most_.push_back(state);
  }
  return at_most_[std::min(characters, at_most_.size() - 1)];
}

NetworkRule JsonShapes::CountedString(size_t least, std::optional<size_t> most) {
  const auto [it, added] = counted_.try_emplace({least, most}, 0);
  if (!added) return it->second;
  it->second = builder_.NewRule();
  NetworkState at = builder_.NewState();
  builder_.Bytes(builder_.StartOf(it->second), '"', '"', at);
  const NetworkState first = at;
  for (size_t i = 0; i < least && !builder_.full(); ++i) {
    const NetworkState next = builder_.NewState();
    AddJsonCharacter(builder_, at, next);
    if (!builder_.full()) builder_.Alike(at, first, least - i);
    at = next;
  }
  if (builder_.full()) return it->second;
  const NetworkState rest = AtMost(most ? *most - least : 0);
  builder_.Free(at, most ? rest : unbounded_);
  return it->second;
}

NetworkRule JsonShapes::Any() {
  if (any_ >= 0) return any_;
  any_ = builder_.NewRule();
  const NetworkState start = builder_.StartOf(any_), end = builder_.EndOf(any_);
  for (const char* word : {"true", "false", "null"}) builder_.TextTo(start, word, end);
  TM_CHECK(AddNumber(builder_, start, {}, end).ok(), "any number can be written");
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
