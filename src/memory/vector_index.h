// Finds vectors near to a query by their cosine: every one is looked at, so nothing near is missed.
// A first pass compares bytes (a vector is quantized to 64 of them, longer ones by a projection
// that is the same in every run), a second the exact numbers of the best.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "memory/lexical_index.h"

namespace tidemill {

// Belongs to one thread at a time.
class VectorIndex {
 public:
  static constexpr size_t kCodeBytes = 64;

  // All vectors have the length of the first. False: this one has not, is empty or not finite, and
  // is left out.
  bool Add(uint64_t number, std::string_view scope, std::span<const float> vector);
  void Remove(uint64_t number);
  // The best first; of equal ones the newer (larger) number first. `score` is the cosine.
  std::vector<Match> Search(std::string_view scope, std::span<const float> query,
                            size_t most) const;
  size_t size() const { return places_.size(); }

 private:
  struct Scope {
    std::vector<int8_t> codes;  // kCodeBytes a vector, without gaps
    std::vector<uint64_t> numbers;
    std::vector<float> vectors;  // of length 1
  };
  struct Place {
    std::string scope;
    size_t at = 0;
  };
  void Encode(std::span<const float> unit, int8_t* code) const;

  size_t length_ = 0;
  std::unordered_map<std::string, Scope> scopes_;
  std::unordered_map<uint64_t, Place> places_;
};

}  // namespace tidemill
