// The cost of the gateway: time to the first token and tokens a second through HTTP, beside the
// bare engine in the same process, and the gaps in streams while weights are swapped. And what it
// stands: many streams and requests while weights are swapped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/gateway_under_test.h"
#include "core/status.h"

namespace tidemill {

struct GatewayBenchOptions {
  ServedBenchOptions served{};
  int streams = 32;         // at once, for the tokens a second
  int tokens = 64;          // of each answer
  int prompt = 512;         // tokens
  int long_prompt = 4096;   // tokens, cold
  int requests = 40;        // one after another, for the first token
  double swap_seconds = 3;  // of streams with a swap every 100 ms, and as long without
};

struct FirstToken {
  double bare_p50_ms = 0, bare_p99_ms = 0;
  double http_p50_ms = 0, http_p99_ms = 0;
  double AddedMs() const { return http_p99_ms - bare_p99_ms; }
};

// Gaps between the events of streams, in milliseconds.
struct StreamGaps {
  double p99_ms = 0;                                         // where no weights were swapped
  double swap_p50_ms = 0, swap_p99_ms = 0, swap_max_ms = 0;  // where the version changed in it
  uint64_t at_swaps = 0;                                     // how many such gaps there were
  double AddedMs() const { return swap_p99_ms - p99_ms; }
};
// `quiet` for the gaps without a swap, `swapped` for those with one; may be the same streams.
StreamGaps GapsOf(const std::vector<StreamTimes>& quiet, const std::vector<StreamTimes>& swapped);

struct GatewayBenchReport {
  FirstToken cold;       // prompts of `prompt` tokens
  FirstToken long_cold;  // of `long_prompt` tokens
  FirstToken later;      // a later turn: all but about 32 tokens are in the cache
  double bare_tokens_per_s = 0;
  double http_tokens_per_s = 0;
  StreamGaps gaps;
  uint64_t swaps = 0;
  uint64_t broken = 0;  // of all streams
  bool on_gpu = false;
  GatewayBenchOptions options;

  double HttpToBare() const { return http_tokens_per_s / bare_tokens_per_s; }
  // Which bounds were missed, a line each. Broken streams are always a miss; the times and the
  // ratio only on a GPU, where the engine does not share its cores with the clients.
  std::vector<std::string> Misses() const;
  std::string ToText() const;
  std::string ToJson() const;  // one object
};

Result<GatewayBenchReport> RunGatewayBench(const GatewayBenchOptions& options);

struct GatewayLoadOptions {
  ServedBenchOptions served{};
  int streams = 1000;  // open at any time
  int requests = 10'000;
  int swaps = 100;  // while they run
  int tokens = 16;  // of each answer
  int prompt = 64;  // tokens
};

struct GatewayLoadReport {
  uint64_t complete = 0;  // streams that had all their tokens and an end
  uint64_t broken = 0;    // all others: refused, cut, an error, too few tokens
  std::string broken_example;
  uint64_t open_most = 0;  // streams the gateway held at once
  uint64_t swaps = 0;
  double seconds = 0;
  double first_token_p99_ms = 0;
  StreamGaps gaps;
  GatewayLoadOptions options;

  std::vector<std::string> Misses() const;
  std::string ToText() const;
  std::string ToJson() const;  // one object
};

// kUnavailable: the process may not open as many files as the streams need.
Result<GatewayLoadReport> RunGatewayLoad(const GatewayLoadOptions& options);

}  // namespace tidemill
