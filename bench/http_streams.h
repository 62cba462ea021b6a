// Many streams at once from one thread: sends requests to a gateway on loopback and notes when
// events come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

struct StreamEvent {
  Time at{};             // when bytes with an event came
  uint64_t version = 0;  // of the last token in them, where the request asked for token ids
};

struct StreamTimes {
  Time sent{};
  std::vector<StreamEvent> events{};
  std::string first{};    // bytes of the answer: its status line
  std::string last{};     // the last bytes of the answer
  bool complete = false;  // "[DONE]" came, and no error before it
};

struct StreamAllOptions {
  size_t at_once = SIZE_MAX;  // open at a time; the next begins where one ends
  Duration limit = std::chrono::minutes(5);
  std::function<void(size_t ended)> ended{};  // called after each, with how many are over
};

// One request for each body, until all are over or the limit has passed.
Result<std::vector<StreamTimes>> StreamAll(uint16_t port, const std::string& path,
                                           const std::vector<std::string>& bodies,
                                           const StreamAllOptions& options);

// The number behind "NAME": in the last bytes of an answer; -1: it is not there.
int64_t NumberIn(const StreamTimes& times, const std::string& name);

}  // namespace tidemill
