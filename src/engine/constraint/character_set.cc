#include "engine/constraint/character_set.h"

#include <algorithm>
#include <string>

namespace tidemill {
namespace {

constexpr uint32_t kFirstPlain = 0x20;  // characters below are escaped in JSON

void AddHex(NetworkBuilder& builder, NetworkState from, uint32_t low, uint32_t high,
            NetworkState to) {
  constexpr std::pair<uint32_t, uint32_t> kParts[] = {{0, 9}, {10, 15}};
  for (const auto& [a, b] : kParts) {
    const uint32_t first = std::max(low, a), last = std::min(high, b);
    if (first > last) continue;
    if (a == 0) {
      builder.Bytes(from, static_cast<uint8_t>('0' + first), static_cast<uint8_t>('0' + last), to);
      continue;
    }
    for (const char ten : {'a', 'A'}) {
      builder.Bytes(from, static_cast<uint8_t>(ten + first - 10),
                    static_cast<uint8_t>(ten + last - 10), to);
    }
  }
}

// A control character, behind its backslash.
void AddControl(NetworkBuilder& builder, NetworkState escape, uint32_t character, NetworkState to) {
  switch (character) {
    case '\b':
      return builder.Bytes(escape, 'b', 'b', to);
    case '\f':
      return builder.Bytes(escape, 'f', 'f', to);
    case '\n':
      return builder.Bytes(escape, 'n', 'n', to);
    case '\r':
      return builder.Bytes(escape, 'r', 'r', to);
    case '\t':
      return builder.Bytes(escape, 't', 't', to);
    default:
      break;
  }
  const NetworkState last = builder.NewState();
  builder.TextTo(escape, character < 16 ? "u000" : "u001", last);
  AddHex(builder, last, character % 16, character % 16, to);
}

// The bytes of a character behind the first are shared by all that have as many.
void AddLongCharacters(NetworkBuilder& builder, NetworkState from, NetworkState to) {
  const auto behind = [&](uint8_t low, uint8_t high, NetworkState next) {
    const NetworkState state = builder.NewState();
    builder.Bytes(state, low, high, next);
    return state;
  };
  const NetworkState one = behind(0x80, 0xBF, to), two = behind(0x80, 0xBF, one),
                     three = behind(0x80, 0xBF, two);
  builder.Bytes(from, 0xC2, 0xDF, one);
  builder.Bytes(from, 0xE0, 0xE0, behind(0xA0, 0xBF, one));
  builder.Bytes(from, 0xE1, 0xEC, two);
  builder.Bytes(from, 0xED, 0xED, behind(0x80, 0x9F, one));
  builder.Bytes(from, 0xEE, 0xEF, two);
  builder.Bytes(from, 0xF0, 0xF0, behind(0x90, 0xBF, two));
  builder.Bytes(from, 0xF1, 0xF3, three);
  builder.Bytes(from, 0xF4, 0xF4, behind(0x80, 0x8F, two));
}

void AddSorted(NetworkBuilder& builder, NetworkState from, const std::vector<std::string>& texts,
               size_t first, size_t last, size_t at, NetworkState to) {
  for (size_t i = first; i < last && !builder.full();) {
    if (texts[i].size() == at) {
      builder.Free(from, to);
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < last && texts[end][at] == texts[i][at]) ++end;
    if (end == i + 1) {
      builder.TextTo(from, std::string_view(texts[i]).substr(at), to);
    } else {
      const auto byte = static_cast<uint8_t>(texts[i][at]);
      const NetworkState next = builder.NewState();
      builder.Bytes(from, byte, byte, next);
      // What all of them share is one path, so that the depth is that of the places where they
      // part.
      size_t shared = at + 1;
      while (texts[i].size() > shared && texts[end - 1].size() > shared &&
             texts[i][shared] == texts[end - 1][shared]) {
        ++shared;
      }
      const NetworkState part =
          builder.Text(next, std::string_view(texts[i]).substr(at + 1, shared - at - 1));
      AddSorted(builder, part, texts, i, end, shared, to);
    }
    i = end;
  }
}

}  // namespace

void CharacterSet::Add(const CharacterSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
}

std::vector<std::pair<uint32_t, uint32_t>> CharacterSet::Ranges() const {
  std::vector<std::pair<uint32_t, uint32_t>> sorted = ranges_, merged;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [low, high] : sorted) {
    if (!merged.empty() && low <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, high);
    } else {
      merged.emplace_back(low, high);
    }
  }
  return merged;
}

CharacterSet CharacterSet::Others() const {
  CharacterSet others;
  uint32_t next = 0;
  for (const auto& [low, high] : Ranges()) {
    if (next < low) others.Add(next, low - 1);
    next = high + 1;
  }
  if (next <= kLast) others.Add(next, kLast);
  return others;
}

void AddCharacter(NetworkBuilder& builder, NetworkState from, const CharacterSet& set,
                  Writing writing, NetworkState to) {
  NetworkState escape = -1;
  const auto escaped = [&] {
    if (escape < 0) {
      escape = builder.NewState();
      builder.Bytes(from, '\\', '\\', escape);
    }
    return escape;
  };
  for (auto [low, high] : set.Ranges()) {
    if (writing == Writing::kPlain) {
      builder.Characters(from, low, high, to);
      continue;
    }
    for (; low < kFirstPlain && low <= high; ++low) AddControl(builder, escaped(), low, to);
    for (const uint32_t special : {uint32_t{'"'}, uint32_t{'\\'}}) {
      if (low > special || special > high) continue;
      const auto byte = static_cast<uint8_t>(special);
      builder.Bytes(escaped(), byte, byte, to);
      if (low < special) builder.Characters(from, low, special - 1, to);
      low = special + 1;
    }
    if (low <= high) builder.Characters(from, low, high, to);
  }
}

void AddJsonCharacter(NetworkBuilder& builder, NetworkState from, NetworkState to) {
  builder.Characters(from, kFirstPlain, '"' - 1, to);
  builder.Characters(from, '"' + 1, '\\' - 1, to);
  builder.Characters(from, '\\' + 1, 0x7F, to);
  AddLongCharacters(builder, from, to);
  const NetworkState escape = builder.NewState();
  builder.Bytes(from, '\\', '\\', escape);
  for (const char c : std::string_view("\"\\/bfnrt")) {
    builder.Bytes(escape, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
  }
  // \uXXXX: a character, or half of one with the other half behind it.
  const NetworkState hex = builder.NewState(), d = builder.NewState(), three = builder.NewState(),
                     two = builder.NewState(), one = builder.NewState();
  builder.Bytes(escape, 'u', 'u', hex);
  AddHex(builder, hex, 0, 12, three);
  AddHex(builder, hex, 14, 15, three);
  AddHex(builder, three, 0, 15, two);
  AddHex(builder, two, 0, 15, one);
  AddHex(builder, one, 0, 15, to);
  AddHex(builder, hex, 13, 13, d);
  AddHex(builder, d, 0, 7, two);
  const NetworkState high_two = builder.NewState(), high_one = builder.NewState(),
                     half = builder.NewState(), low_d = builder.NewState();
  AddHex(builder, d, 8, 11, high_two);
  AddHex(builder, high_two, 0, 15, high_one);
  AddHex(builder, high_one, 0, 15, half);
  const NetworkState other = builder.Text(half, "\\u");
  AddHex(builder, other, 13, 13, low_d);
  AddHex(builder, low_d, 12, 15, two);
}

void AddJsonCharacters(NetworkBuilder& builder, NetworkState from, const CharacterBounds& bounds,
                       NetworkState to) {
  NetworkState at = builder.NewState();
  builder.Free(from, at);
  const size_t last = bounds.most.value_or(bounds.least);
  for (size_t i = 0; i < last && !builder.full(); ++i) {
    if (i >= bounds.least) builder.Free(at, to);
    const NetworkState next = builder.NewState();
    AddJsonCharacter(builder, at, next);
    at = next;
  }
  if (!bounds.most) AddJsonCharacter(builder, at, at);
  builder.Free(at, to);
}

void AddTexts(NetworkBuilder& builder, NetworkState from, std::vector<std::string> texts,
              NetworkState to) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  AddSorted(builder, from, texts, 0, texts.size(), 0, to);
}

}  // namespace tidemill
