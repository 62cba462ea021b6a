// tidemill worker learner, beside the other roles of cmd_worker.cc.
#pragma once

#include <string>
#include <vector>

#include "observe/worker_beacon.h"
#include "run/run_sheet.h"

namespace tidemill {

struct WorkerArguments {
  std::string role, url, run, config_file;
  std::vector<std::string> sets;
  bool resume = false, json = false, no_web = false, keep_workers = false;
  std::string metrics_address = "127.0.0.1", metrics_token_file;
  std::string listen;     // rollout: where the policy is served; empty: nowhere
  std::string keys_file;  // rollout: of the gateway
  SheetKeys keys;
  uint16_t metrics_port = 0;
};

// Returns the exit status.
int RunLearner(const WorkerArguments& arguments, WorkerBeaconOptions beacon);

}  // namespace tidemill
