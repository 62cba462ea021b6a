// How the reward loop works.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/clock.h"
#include "core/journal.h"
#include "core/message_check.h"
#include "reward/scorer.h"

namespace tidemill {

class Metrics;

struct WeightedScorer {
  std::unique_ptr<Scorer> scorer;
  double weight = 1;
  bool by_default = true;  // false: only for tasks whose own weights name it
};

struct RewardOptions {
  std::string worker = "local";
  uint32_t max_outstanding = 1024;  // episodes being scored at once
  uint32_t retries = 3;
  Duration retry_delay = milliseconds(200);
  Duration call_patience = std::chrono::minutes(5);
  Duration lease_period = std::chrono::seconds(10);
  double turn_weight = 0;       // of turn rewards: the gain in the share of visible tests passed
  double turn_discount = 1;     // of the reward, for every turn after the first
  double time_weight = 0;       // taken from it for every second of waiting for a tool
  bool all_or_nothing = false;  // of tests, where they decide instead of another scorer
  std::vector<RunConfig::JudgeKeys> judges;
  RunConfig::Audit audit;
  std::string order_by;       // the judge whose estimates order gradings; empty: none are held back
  uint32_t order_ahead = 16;  // gradings at the tools from which on others wait
  Duration order_wait = std::chrono::seconds(10);  // that a grading waits at most
  uint64_t seed = 1;                               // of what is audited
  Journal* journal = nullptr;                      // may be null; must outlive the loop
  Metrics* metrics = nullptr;                      // may be null; must outlive the loop
  std::string secret;  // of this worker: what tokens of its requests are made from
  MessageLimits limits;
};

}  // namespace tidemill
