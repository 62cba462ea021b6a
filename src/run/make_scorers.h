// From the config's reward.* keys to scorers and the port that runs their commands.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "reward/command_port.h"
#include "reward/reward_loop.h"

namespace tidemill {

struct RewardParts {
  std::vector<WeightedScorer> scorers;
  std::unique_ptr<CommandPort> port;
  std::map<std::string, uint32_t> versions;  // by scorer
  RewardOptions options;
};

// kInvalid names the key.
Result<RewardParts> MakeReward(const RunConfig& config);

}  // namespace tidemill
