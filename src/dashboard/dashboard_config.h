// The keys of [dashboard].
#pragma once

#include <cstdint>
#include <string>

#include "config/section.h"

namespace tidemill {

struct DashboardConfig {
  TM_SECTION("dashboard");
  TM_KEY(bool, web, true, {.doc = "Serve the dashboard during training; --no-web turns it off"});
  TM_KEY(std::string, host, "127.0.0.1",
         {.doc = "Listen address of the dashboard; outside loopback a bearer token is required"});
  TM_KEY(uint32_t, port, 8321, {.doc = "Port of the dashboard; 0: any free port", .max = 65535});
  TM_KEY(std::string, if_taken, "free",
         {.doc = "If the port is taken: free: use another port; none: train without a dashboard",
          .choices = {"free", "none"}});
  TM_KEY(std::string, token_file, "",
         {.doc = "File with bearer tokens, one per line; empty: none"});
  TM_KEY(bool, tensorboard, true, {.doc = "Also write the metrics of each step for TensorBoard"});
};

}  // namespace tidemill
