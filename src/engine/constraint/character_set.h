// A set of Unicode characters, and how one of them is written: as it is, or inside of a JSON
// string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/constraint/byte_network.h"

namespace tidemill {

class CharacterSet {
 public:
  static constexpr uint32_t kLast = 0x10FFFF;

  void Add(uint32_t low, uint32_t high) { ranges_.emplace_back(low, high); }
  void Add(const CharacterSet& other);
  // Of all characters those that are not in it.
  CharacterSet Others() const;
  // Sorted and disjoint.
  std::vector<std::pair<uint32_t, uint32_t>> Ranges() const;

 private:
  std::vector<std::pair<uint32_t, uint32_t>> ranges_;
};

// How text is written into a document.
enum class Writing : uint8_t {
  kPlain,
  kJson,  // inside of a JSON string: quotes, backslashes and control characters escaped
};

// One character of the set, from one state to another.
void AddCharacter(NetworkBuilder& builder, NetworkState from, const CharacterSet& set,
                  Writing writing, NetworkState to);

// Any character of a JSON string, in any way it may be written.
void AddJsonCharacter(NetworkBuilder& builder, NetworkState from, NetworkState to);

// So many of them; without `most` any number.
struct CharacterBounds {
  size_t least = 0;
  std::optional<size_t> most{};
};
void AddJsonCharacters(NetworkBuilder& builder, NetworkState from, const CharacterBounds& bounds,
                       NetworkState to);

// One of the texts; what they begin with together is there once.
void AddTexts(NetworkBuilder& builder, NetworkState from, std::vector<std::string> texts,
              NetworkState to);

}  // namespace tidemill
