// The limits of a command, and the defaults where a request says nothing.
#pragma once

#include <cstdint>

#include "core/clock.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct BoxLimits {
  Duration wall = std::chrono::seconds(10);
  Duration cpu = std::chrono::seconds(10);      // of everything in the box together
  uint64_t memory_bytes = uint64_t{512} << 20;  // the same; files in the box are memory
  uint64_t processes = 64;                      // processes and threads at once
  uint64_t output_bytes = uint64_t{1} << 20;    // stdout and stderr together
  uint64_t disk_bytes = uint64_t{64} << 20;     // workspace, /tmp and /dev/shm together

  friend bool operator==(const BoxLimits&, const BoxLimits&) = default;
};

// `wanted` where it says something, `defaults` elsewhere.
BoxLimits LimitsFrom(const v1::Limits& wanted, const BoxLimits& defaults);

// kInvalid, naming the limit: outside what makes sense (wall 1 ms .. 1 h, memory 8 MiB .. 1 TiB,
// ..).
Status CheckLimits(const BoxLimits& limits);

// How a command that ran into its wall-clock limit had shared the CPU.
struct CpuShare {
  uint64_t cpu_us = 0;     // it ran
  uint64_t waited_us = 0;  // it could have run and did not
  Duration wall{0};
  size_t cores = 1;    // there are
  size_t sharing = 1;  // commands of ours that want them, this one included
};

// Whether it got less than half of the CPU it could have used, which is no more than its share of
// the cores all the time: what our other commands take is no disturbance. A command that sleeps
// could have used none and is not starved.
bool WasStarved(const CpuShare& share);

}  // namespace tidemill
