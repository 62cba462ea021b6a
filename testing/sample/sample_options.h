// The shape of a made-up run.
#pragma once

#include <cstdint>
#include <string>

namespace tidemill {

struct SampleOptions {
  uint64_t steps = 40;
  uint32_t groups_per_step = 8;
  uint32_t group_size = 4;
  uint32_t tasks = 24;
  uint32_t slots = 16;
  bool synchronous = false;  // generation stands still while a step trains
  bool finished = true;      // writes summary.json
  bool metrics = true;
  bool live = false;    // Tick is called from outside, with the real time
  bool memory = false;  // episodes become cases, of which the bank keeps 30
  uint32_t steps_a_transaction = 1;
  uint64_t seed = 1;
  int64_t begin_ms = 1'760'000'000'000;
  std::string model;  // a folder with a tokenizer; empty: ids without texts
};

}  // namespace tidemill
