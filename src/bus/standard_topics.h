// Opens the topics every run has, with the bounds and leases it wants.
#pragma once

#include "bus/bus.h"

namespace tidemill {

struct TopicPlan {
  Duration lease = std::chrono::seconds(30);  // how soon a dead worker's messages go to another
  size_t capacity = 16384;                    // of each topic
  uint32_t max_deliveries = 5;
};

// Inboxes are opened by the loops that own them. `loop`: only the topics this loop takes part in,
// which is all its user on Redis may touch; empty: all.
Status OpenStandardTopics(Bus& bus, const TopicPlan& plan, std::string_view loop = {});

}  // namespace tidemill
