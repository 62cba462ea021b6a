// How fast the store makes trajectories durable, beside a plain write and fdatasync of the same
// bytes in the same groups; and how fast its readers answer on a large run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/status.h"

namespace tidemill {

struct StoreBenchOptions {
  std::string directory;  // on the disk to measure; empty: the system's for temporary files
  uint64_t trajectories = 6000;
  uint32_t tokens = 2000;       // of each, the model's
  uint64_t in_flight = 512;     // submitted and not yet acknowledged
  uint32_t rounds = 3;          // store and plain file take turns
  uint64_t episodes = 100'000;  // of the run the readers are asked about; 0: leave that out
};

struct StoreBenchReport {
  uint64_t trajectories = 0;
  uint32_t tokens = 0;
  double bytes_each = 0;           // of a trajectory's message
  double group = 0;                // trajectories in a transaction, on average
  double store_per_s = 0;          // trajectories through StoreThread, synced
  double plain_per_s = 0;          // the same messages to a file, synced after every group
  double ratio = 0;                // store_per_s / plain_per_s
  double file_bytes_per_byte = 0;  // size of the database by the bytes of the messages
  uint64_t episodes = 0;
  std::map<std::string, double> query_ms;  // median of each query
  double query_ms_worst = 0;               // of those medians

  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

// Leaves nothing behind. kInvalid: an option is wrong. kUnavailable: the disk refuses.
Result<StoreBenchReport> RunStoreBench(const StoreBenchOptions& options);

}  // namespace tidemill
