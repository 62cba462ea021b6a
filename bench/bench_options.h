// The options of `tidemill bench`, for bench_words.cc and the program that measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/agents_bench.h"
#include "bench/bus_bench.h"
#include "bench/constraint_bench.h"
#include "bench/disk_bench.h"
#include "bench/gateway_bench.h"
#include "bench/memory_bench.h"
#include "bench/overlap_bench.h"
#include "bench/publish_bench.h"
#include "bench/store_bench.h"
#include "bench/tokenizer_bench.h"
#include "bench/waiting_bench.h"

namespace tidemill {

struct BenchWords {
  std::string name;  // of the benchmark
  bool json = false;
  BusBenchOptions bus;
  PublishBenchOptions publish;
  StoreBenchOptions store;
  TokenizerBenchOptions tokenizer;
  ConstraintBenchOptions constraint;
  DiskBenchOptions disk;
  AgentsBenchOptions agents;
  GatewayBenchOptions gateway;
  GatewayLoadOptions load;
  MemoryBenchOptions memory;
  uint64_t searched = 100'000;  // cases of memory's search measurement; 0: none
  OverlapOptions overlap;
  WaitingBenchOptions waiting;
  std::vector<std::string> settings;  // of overlap, "MODE:BATCH:IN_FLIGHT"
};

}  // namespace tidemill
