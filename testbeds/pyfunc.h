// The built-in family of tasks "pyfunc": a Python function in plain words, a chain of simple
// operations on a list of integers or a string. seed -> chains -> prompt, assertions and a solution
// as text.
//
//   Write `solve(x)` in Python: given a list of integers, keep only the even numbers, then reverse
//   the order; return the sum of the result.
//
// A chain's behaviour is its outputs on fixed inputs. A hash of them decides the split, so
// that sets of any size and seed never share a behaviour across the splits.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "tasks/import/task_import.h"

namespace tidemill {

struct PyfuncOptions {
  uint64_t count = 0;
  uint64_t seed = 0;
  bool heldout = false;
  uint32_t cpu_ms = 1000;  // of one grading
};

inline constexpr uint64_t kPyfuncCountMax = 100'000;
// One in this many behaviours is held out.
inline constexpr uint64_t kPyfuncHeldoutShare = 8;
// Assertions of a task: one is shown, all are graded.
inline constexpr size_t kPyfuncTests = 7;

struct PyfuncTask {
  ImportedTask imported;
  uint64_t behaviour = 0;
};

// `count` tasks in an order drawn from the seed; until the grammar has no further behaviour to
// offer, no two behave alike. kInvalid: a count that makes no sense.
Result<std::vector<PyfuncTask>> GeneratePyfunc(const PyfuncOptions& options);

}  // namespace tidemill
