// Arrays of numbers in binary bodies: little-endian, one behind the other.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

static_assert(std::endian::native == std::endian::little, "arrays on the wire are little-endian");

template <typename T>
std::string ToWireBytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

// False: the bytes are no whole number of them.
template <typename T>
bool FromWireBytes(std::string_view bytes, std::vector<T>& numbers) {
  if (bytes.size() % sizeof(T) != 0) return false;
  numbers.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace tidemill
