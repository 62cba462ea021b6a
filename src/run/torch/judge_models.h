// Judges that are a model directory: each is served on loopback inside this process, by the same
// engine and gateway as `tidemill serve`, and asked as every other endpoint.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "run/run_config.h"
#include "run/torch/policy_server.h"

namespace tidemill {

class JudgeModels {
 public:
  // Serves every directory that is an endpoint of `judges` and puts its address there. `device` is
  // model.device of the run. kInvalid: an endpoint is neither an address nor a model directory.
  Status Serve(std::vector<JudgeConfig>& judges, const std::string& device);

 private:
  std::map<std::string, std::unique_ptr<PolicyServer>> servers_;  // by directory
};

}  // namespace tidemill
