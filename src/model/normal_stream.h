// Normally distributed numbers by their place. Number i of a stream depends on the stream and on i
// alone, so any thread can draw any part of it, and the numbers are the same on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tidemill {

// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw, 2011): four words from a counter and a
// key.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;
PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key);

class NormalStream {
 public:
  // Streams of other seeds or other labels are independent.
  NormalStream(uint64_t seed, std::string_view label);

  // Numbers `first`, `first` + 1, .. of the stream, times `sigma`. `first` is a multiple of 4. None
  // is further than 5.8 sigma from 0.
  void Fill(uint64_t first, float sigma, std::span<float> out) const;

 private:
  PhiloxKey key_;
};

}  // namespace tidemill
