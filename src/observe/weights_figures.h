// What versions of the weights cost on their way to other processes, as a heartbeat of the learner
// carries it: one set of numbers a way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/metrics.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct WayFigures {
  std::string way;         // "shm", "files", "bus"
  double versions = 0;     // published
  double version = 0;      // the newest of them
  double bytes = 0;        // of what who had the one before reads
  double whole = 0;        // of the whole version
  double density = 1;      // share of numbers that changed; 1 where that is not known
  double seconds = 0;      // it took
  double bytes_total = 0;  // of all versions
};

// For a heartbeat's numbers: "weights_files_bytes", ..
std::map<std::string, double> NumbersOf(const std::vector<WayFigures>& ways);
// And back; those ways that published anything.
std::vector<WayFigures> WaysIn(const v1::Heartbeat& beat);
// tidemill_weights_*, by way.
void SinkWays(const std::vector<WayFigures>& ways, MetricSink& sink);
// A table for people; empty without ways.
std::string WaysText(const std::vector<WayFigures>& ways);

}  // namespace tidemill
