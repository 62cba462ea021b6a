// How the reward loop works.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/journal.h"
#include "core/message_check.h"
#include "reward/reward_config.h"
#include "reward/scorer.h"

namespace tidemill {

class Metrics;

struct WeightedScorer {
  std::unique_ptr<Scorer> scorer;
  double weight = 1;
  bool by_default = true;  // false: only for tasks whose own weights name it
};

struct RewardOptions : RewardConfig {
  std::string worker = "local";
  uint32_t max_outstanding = 1024;  // episodes being scored at once
  Duration retry_delay = milliseconds(200);
  Duration call_patience = std::chrono::minutes(5);
  Duration lease_period = std::chrono::seconds(10);
  uint64_t seed = 1;           // of what is audited
  Journal* journal = nullptr;  // may be null; must outlive the loop
  Metrics* metrics = nullptr;  // may be null; must outlive the loop
  std::string secret;          // of this worker: what tokens of its requests are made from
  MessageLimits limits;
};

}  // namespace tidemill
