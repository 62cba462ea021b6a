// Decoding with weights in eight bits against float32, at 135M parameters on two threads, by the
// wall clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct Int8BenchOptions {
  std::vector<int> sequences = {1, 8, 32};  // that decode at once
  int threads = 2;
  int tokens = 24;  // written by each
  int rounds = 3;   // of each, in turn; the best counts
  uint64_t seed = 1;
};

struct Int8BenchRow {
  int sequences = 0;
  double float_tokens_per_s = 0, int8_tokens_per_s = 0;
  double Ratio() const { return int8_tokens_per_s / float_tokens_per_s; }
};

struct Int8BenchReport {
  int64_t parameters = 0;
  std::string kernels;  // "avx512", "avx2" or "plain"
  std::vector<Int8BenchRow> rows;

  std::string ToText() const;
  std::string ToJson() const;  // one object
};

Result<Int8BenchReport> RunInt8Bench(const Int8BenchOptions& options);

}  // namespace tidemill
