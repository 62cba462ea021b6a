// The keys of [engine].
#pragma once

#include <cstdint>

#include "config/section.h"

namespace tidemill {

struct EngineConfig {
  TM_SECTION("engine");
  TM_KEY(
      uint32_t, versions, 1,
      {.doc = "Number of weight versions held at once, so that a request can pin one; each needs "
              "the memory of a whole set; 1 on a GPU",
       .min = 1,
       .max = 64});
};

}  // namespace tidemill
