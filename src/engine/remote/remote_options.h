// How a remote engine serves; one struct for its parts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/clock.h"
#include "engine/engine.h"

namespace tidemill {

struct RemoteOptions {
  int32_t vocabulary = 0;
  int32_t max_context = 0;  // 0: as much as every server takes
  std::function<std::string(TokenId)> token_bytes{};
  CacheOnSwap cache_on_swap = CacheOnSwap::kKeep;
  // A turn starts only on a server that has the newest version.
  bool wait_for_weights = false;
  std::string salt_key{};                         // secret; in front of what names shared pages
  uint32_t turns_per_server = 256;                // under way at once
  uint32_t attempts = 4;                          // of one turn
  size_t max_outstanding = 65536;                 // answers owed at once
  Duration silence = std::chrono::minutes(10);    // of a server with a call of ours
  Duration patience = std::chrono::minutes(5);    // of a turn while no server serves
  Duration look_again = std::chrono::seconds(1);  // at a server that was not there
  // Of the canary: the mean difference of log-probabilities, and a tenth of the largest.
  double canary_tolerance = 1e-4;
};

}  // namespace tidemill
