// How a run is doing: what its loops count, what its ports are busy with, what waits where.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/counters.h"
#include "core/journal.h"

namespace tidemill {

// Share of the time something worked since the run began, 0..1.
struct BusyShare {
  std::string name;
  bool port = false;  // else a loop
  double share = 0;
};

struct RunSnapshot {
  double seconds = 0;  // since the run, or its resumption, began
  // By Counter::About::key: the figures of every loop there is. Of a fleet, those of its workers
  // are added.
  std::map<std::string, uint64_t, std::less<>> counts;
  std::vector<BusyShare> busy;
  std::vector<std::pair<std::string, uint64_t>> depths;  // messages ready, by topic
  // Of a fleet: how many are there, by role, and how many are lost. Empty: it is one process.
  std::map<std::string, uint64_t> workers;
  uint64_t workers_lost = 0;

  // 0: nobody here counts that.
  uint64_t operator[](std::string_view key) const {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }
  void Add(const CounterSet& set) {
    for (const Counter* counter : set.all()) counts[counter->about().key] = counter->load();
  }
  double tool_ms() const { return PerCommand("tool_wall_us"); }    // mean of a command in its box
  double queue_ms() const { return PerCommand("tool_queue_us"); }  // mean wait before it

  // As one line of metrics.jsonl.
  Numbers ToNumbers() const;

 private:
  double PerCommand(std::string_view key) const {
    const uint64_t commands = (*this)["tool_commands"];
    return commands == 0 ? 0
                         : static_cast<double>((*this)[key]) / 1e3 / static_cast<double>(commands);
  }
};

}  // namespace tidemill
