// Many streams at once from one thread: sends requests to a gateway on loopback and notes when
// events come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

struct StreamTimes {
  Time sent{};
  std::vector<Time> events{};  // when bytes with an event came
  std::string last{};          // the last bytes of the answer
  bool complete = false;       // "[DONE]" came
};

// One request for each body, all at once, until all are over or `limit` has passed.
Result<std::vector<StreamTimes>> StreamAll(uint16_t port, const std::string& path,
                                           const std::vector<std::string>& bodies, Duration limit);

}  // namespace tidemill
