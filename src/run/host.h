// A part of a process below its loops: what one role opens from the config and owns, such as ports,
// connections and threads. A process has those its roles need, opened in the order of OpenRun
// (run/torch/open_run.cc) and taken down in reverse. A new part is a class here and a line there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/counters.h"
#include "core/metrics.h"
#include "core/status.h"

namespace tidemill {

// Working time of a port so far.
struct PortUse {
  std::string name;
  Duration busy{};
  int slots = 1;
};

class Host {
 public:
  virtual ~Host() = default;
  virtual std::vector<PortUse> Usage(Time now) const {
    (void)now;
    return {};
  }
  // Figures for others, as they are now, such as how many calls fit at once.
  virtual std::map<std::string, double> Levels() const { return {}; }
  // Counters of the loops that it owns.
  virtual std::vector<const CounterSet*> counters() const { return {}; }
  // Figures that only a port has: boxes opened, connections made again.
  virtual void Sink(MetricSink& sink) const { (void)sink; }
  // Called about once a second. Not ok: the process cannot go on, and why.
  virtual Status Watch() { return Ok(); }
};

}  // namespace tidemill
