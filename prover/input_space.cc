#include "prover/input_space.h"

#include <algorithm>

#include "core/random.h"

namespace tidemill {
namespace {

std::vector<int64_t> CornersOf(const InputInterval& interval) {
  std::vector<int64_t> values;
  const auto low = static_cast<uint64_t>(interval.low), high = static_cast<uint64_t>(interval.high);
  const uint64_t wanted[] = {0,   1,    ~uint64_t{0},     2,       5,
                             low, high, ~uint64_t{0} - 1, low + 1, high - 1};
  for (const uint64_t bits : wanted) {
    const auto value = static_cast<int64_t>(bits);
    if (!interval.Holds(value)) continue;
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values;
}

// Of all sizes, so that small numbers and large ones both come.
int64_t DrawValue(const InputInterval& interval, Random& random) {
  const uint64_t count = interval.Count();
  if (random.Chance(0.5)) {
    const uint64_t offset = count == ~uint64_t{0} ? random.Next() : random.Below(count);
    return static_cast<int64_t>(static_cast<uint64_t>(interval.low) + offset);
  }
  const auto bits = static_cast<uint64_t>(random.Between(1, 63));
  const auto magnitude = static_cast<int64_t>(random.Next() >> bits);
  const int64_t value = random.Chance(0.5) ? magnitude : -magnitude;
  return interval.Holds(value) ? value : interval.low;
}

}  // namespace

uint64_t CountInputs(const InputSpace& space) {
  uint64_t count = 1;
  for (const InputInterval& interval : space) {
    if (__builtin_mul_overflow(count, interval.Count(), &count)) return ~uint64_t{0};
  }
  return count;
}

bool NextInput(const InputSpace& space, Input& input) {
  for (size_t i = input.size(); i > 0; --i) {
    if (input[i - 1] != space[i - 1].high) {
      input[i - 1] = static_cast<int64_t>(static_cast<uint64_t>(input[i - 1]) + 1);
      return true;
    }
    input[i - 1] = space[i - 1].low;
  }
  return false;
}

std::vector<Input> ProbeInputs(const InputSpace& space, size_t count) {
  std::vector<std::vector<int64_t>> corners;
  size_t combinations = 1;
  for (const InputInterval& interval : space) {
    corners.push_back(CornersOf(interval));
    combinations = std::min<size_t>(combinations * corners.back().size(), 1 << 20);
  }
  std::vector<Input> probes;
  Random random(StableHash("probes of a proof"));
  const size_t corner_probes = std::min(combinations, count / 2);
  for (size_t i = 0; i < corner_probes; ++i) {
    Input input;
    size_t rest = i;
    for (const std::vector<int64_t>& values : corners) {
      const bool all = combinations <= count / 2;
      input.push_back(values[all ? rest % values.size() : random.Below(values.size())]);
      rest /= values.size();
    }
    probes.push_back(std::move(input));
  }
  while (probes.size() < count && !space.empty()) {
    Input input;
    for (const InputInterval& interval : space) input.push_back(DrawValue(interval, random));
    probes.push_back(std::move(input));
  }
  return probes;
}

}  // namespace tidemill
