// How fast text becomes tokens on one core, beside the regular expression alone on the same text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct TokenizerBenchOptions {
  std::string model_dir;  // its tokenizer is used; empty: one of 4,096 tokens is learnt first
  size_t text_bytes = size_t{8} << 20;
  uint64_t seed = 1;
};

struct TokenizerBenchReport {
  size_t text_bytes = 0;
  size_t tokens = 0;
  double encode_mb_per_s = 0;
  double split_mb_per_s = 0;  // cutting into pre-tokens alone (Qwen's pattern)
  double decode_mb_per_s = 0;
  double encode_to_split = 0;  // encode_mb_per_s / split_mb_per_s

  std::string ToText() const;
  std::string ToJson() const;  // one object
};

// Takes seconds. The text is made up from the seed: code and prose with names that rarely repeat.
Result<TokenizerBenchReport> RunTokenizerBench(const TokenizerBenchOptions& options);

}  // namespace tidemill
