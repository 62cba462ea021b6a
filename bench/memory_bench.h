// The value of memory: a frozen policy on projects (testbeds/project.h), with different ways to use
// what it experienced, all on the same tasks and with the same draws. And how quickly cases are
// found.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct MemoryBenchOptions {
  std::string model;            // directory of a policy warmed up on other projects
  bool perfect_reader = false;  // instead of a policy; without the arm of hidden states
  std::vector<uint64_t> seeds = {1, 2, 3};
  uint32_t projects = 8;          // of a seed
  uint32_t before = 100;          // tasks of a project before half of its names change
  uint32_t after = 100;           // and after
  uint32_t held_out = 90;         // of a project: asked once with the bank as it is at the change
  uint32_t members = 2;           // episodes of a task
  uint32_t cases = 8;             // shown at most
  std::vector<std::string> arms;  // empty: all
  int threads = 1;
  int key_layers = 0;  // of the policy, for hidden states; 0: half
};

struct Estimate {
  double mean = 0;
  double half = 0;  // of the 95 % interval, over projects
};

struct MemoryArmReport {
  std::string name;
  std::vector<double> curve;            // pass rate by episode of a project
  Estimate held_out;                    // with the bank frozen at the change
  Estimate area;                        // mean over the episodes before the change
  Estimate early;                       // mean over episodes 21 to 40
  Estimate before, changed, recovered;  // last 50 before, first 100 after, 51st to 100th after
  uint64_t cases = 0;                   // in all banks at the end
  uint64_t itself = 0;                  // cases of the task itself shown to held-out tasks
};

struct MemoryDifference {
  std::string what;
  Estimate value;
  double detectable = 0;  // the difference that would be found with a chance of 80 %
};

struct MemorySearch {
  std::string index;
  uint64_t cases = 0;
  double median_us = 0, p99_us = 0;
};

struct MemoryBenchReport {
  std::vector<MemoryArmReport> arms;
  std::vector<double> ideal;  // curve of the ideal learner
  double ideal_area = 0;
  std::vector<MemoryDifference> differences;
  std::vector<MemorySearch> searches;
  std::string digest_before, digest_after;  // of the weights
  uint64_t held_out_tasks = 0;
  uint64_t episodes = 0;
  double seconds = 0;

  // Bounds that were missed, in words; of arms that were run.
  std::vector<std::string> Misses() const;
  std::string ToText() const;
  std::string ToJson() const;
};

Result<MemoryBenchReport> RunMemoryBench(const MemoryBenchOptions& options);

// One query each in a bank of so many cases, by the processor time of the thread.
std::vector<MemorySearch> MeasureSearches(uint64_t cases, uint64_t queries);

}  // namespace tidemill
