// What the gateway costs: time to the first token and tokens a second through HTTP, beside the bare
// engine in the same process, and the gaps in streams while weights are swapped.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct GatewayBenchOptions {
  std::string model;  // a directory; empty: random weights, 2 layers of width 64
  std::string device = "cpu";
  int streams = 32;         // at once, for the tokens a second
  int tokens = 64;          // of each answer
  int prompt = 512;         // tokens
  int long_prompt = 4096;   // tokens, cold
  int requests = 40;        // one after another, for the first token
  int threads = 1;          // of the engine
  double swap_seconds = 3;  // of streams with a swap every 100 ms, and as long without
  uint64_t seed = 1;
};

struct FirstToken {
  double bare_p50_ms = 0, bare_p99_ms = 0;
  double http_p50_ms = 0, http_p99_ms = 0;
};

struct GatewayBenchReport {
  FirstToken cold;       // prompts of `prompt` tokens
  FirstToken long_cold;  // of `long_prompt` tokens
  FirstToken later;      // a later turn: all but 32 tokens are in the cache
  double bare_tokens_per_s = 0;
  double http_tokens_per_s = 0;
  double http_to_bare = 0;
  double gap_p99_ms = 0;       // between events of a stream
  double swap_gap_p99_ms = 0;  // the same while weights are swapped
  uint64_t swaps = 0;
  uint64_t errors = 0;  // of all requests
  GatewayBenchOptions options;

  std::string ToText() const;
  std::string ToJson() const;  // one object
};

Result<GatewayBenchReport> RunGatewayBench(const GatewayBenchOptions& options);

}  // namespace tidemill
