// The cost of an episode that is a program, against the same episode by the built-in protocol,
// which draws the same ids; and what programs cost that wait for the model.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct AgentsBenchOptions {
  std::string agent = "examples/agent.py";
  uint64_t tasks = 32;     // two episodes each
  uint64_t waiting = 500;  // programs at once; 0: not measured
  double seconds = 5;      // for which those are watched
};

struct AgentsBenchReport {
  struct Path {
    double episodes_per_s = 0;
    double cpu_ms_per_turn = 0;  // of this process and the boxes; the model computes nothing
    uint64_t turns = 0;
  };
  Path protocol;        // "compact"
  Path program;         // the same episodes by the agent
  double start_ms = 0;  // median, from a job to the agent's first request, one at a time
  uint64_t waiting = 0;
  double waiting_cores = 0;      // of all of them together
  double waiting_mb = 0;         // resident, each
  double waiting_cores_max = 0;  // the bound: 5 % of a core for 500

  bool Holds() const { return waiting == 0 || waiting_cores <= waiting_cores_max; }
  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

// kUnavailable: no box can run here, or the programs do not come to ask.
Result<AgentsBenchReport> RunAgentsBench(const AgentsBenchOptions& options);

}  // namespace tidemill
