// The keys of [tinker].
#pragma once

#include <cstdint>
#include <string>

#include "config/section.h"

namespace tidemill {

struct TinkerConfig {
  TM_SECTION("tinker");
  TM_KEY(
      bool, on, false,
      {.doc = "Serve the Tinker API beside the run, with model.path as the base; see tinker.md"});
  TM_KEY(uint32_t, port, 8410, {.doc = "Port of the Tinker API; 0: any free port", .max = 65535});
  TM_KEY(std::string, host, "127.0.0.1",
         {.doc = "Listen address; outside loopback keys are required"});
  TM_KEY(std::string, keys, "",
         {.doc = "File of API keys; see tidemill tinker --new-key. Empty: everybody on loopback"});
  TM_KEY(uint32_t, max_rank, 128,
         {.doc = "Largest LoRA rank that is served", .min = 1, .max = 1024});
};

}  // namespace tidemill
