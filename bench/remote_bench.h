// What a streamed token from an inference server costs this side, with the published number of
// turns in flight.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct RemoteBenchOptions {
  uint32_t in_flight = 256;
  uint32_t turns = 1024;
  int32_t tokens = 200;  // of each turn
};

struct RemoteBenchReport {
  uint32_t in_flight = 0;
  uint64_t tokens = 0;
  double us_per_token = 0;        // CPU of the engine's thread
  double us_per_token_bound = 0;  // what it may be
  double cores_at_20000 = 0;      // of a core, at 20,000 tokens a second

  bool Holds() const { return us_per_token <= us_per_token_bound; }
  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

// Servers of testing/scripted_host.h in this process, one chunk a token; their work is not counted.
Result<RemoteBenchReport> RunRemoteBench(const RemoteBenchOptions& options);

}  // namespace tidemill
