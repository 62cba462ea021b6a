// How fast tokens are generated on one thread: the engine beside the same decode written with plain
// libtorch calls (one tensor operation after the other, keys and values in one contiguous tensor,
// all sequences of one length, which is the best case for it).
#pragma once

#include <cstdint>
#include <string>

#include "bench/engine_serving.h"
#include "core/status.h"

namespace tidemill {

struct EngineBenchOptions {
  int sequences = 64;         // beside the plain decode, a model of 1M parameters
  int tokens = 128;           // written by each
  int small_sequences = 500;  // the engine alone, a model of 170k parameters
  int small_prompt = 96;
  int small_tokens = 64;
  uint64_t seed = 1;
};

struct EngineBenchReport {
  int64_t parameters = 0;
  double engine_tokens_per_s = 0;
  double plain_tokens_per_s = 0;
  double engine_to_plain = 0;
  int64_t small_parameters = 0;
  double small_tokens_per_s = 0;
  double small_prefill_tokens_per_s = 0;
  std::string kernels;  // "avx512", "avx2" or "plain"
  ServingReport serving;

  std::string ToText() const;
  std::string ToJson() const;  // one object
};

// Takes half a minute. Rates are by the thread's CPU time, so that a busy machine does not decide
// them.
Result<EngineBenchReport> RunEngineBench(const EngineBenchOptions& options);

}  // namespace tidemill
