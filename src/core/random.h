// Random numbers from a seed (xoshiro256++ seeded by splitmix64, Blackman and Vigna). The same seed
// gives the same numbers on every machine, which std::distribution does not promise. Split() makes
// a stream of its own for a part, so that one part drawing more numbers does not change another's.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace tidemill {

class Random {
 public:
  explicit Random(uint64_t seed);

  // A stream that depends on this one's seed and the label, not on what was drawn so far.
  Random Split(std::string_view label) const;
  Random Split(uint64_t label) const;

  uint64_t Next();
  double Uniform();                            // [0, 1)
  uint64_t Below(uint64_t n);                  // [0, n), n > 0, without bias
  int64_t Between(int64_t low, int64_t high);  // [low, high]
  bool Chance(double p) { return Uniform() < p; }
  double Normal();
  double LogNormal(double median, double sigma);
  double Exponential(double mean);

  template <typename Container>
  void Shuffle(Container& items) {
    for (uint64_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

  // For checkpoints: where the stream stands.
  struct State {
    uint64_t seed;
    uint64_t words[4];
  };
  State Save() const;
  static Random Restore(const State& state);

 private:
  uint64_t seed_;
  uint64_t words_[4];
};

// A stable 64-bit hash of bytes (FNV-1a, then mixed); not for adversaries.
uint64_t StableHash(std::string_view bytes);
uint64_t MixHash(uint64_t a, uint64_t b);

}  // namespace tidemill
