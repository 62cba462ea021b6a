#include "bus/standard_topics.h"

#include "core/topics.h"

namespace tidemill {

Status OpenStandardTopics(Bus& bus, const TopicPlan& plan, std::string_view loop) {
  for (const TopicRow& row : kTopics) {
    if (!loop.empty() && !TakesPart(row, loop)) continue;
    const uint32_t deliveries = row.max_deliveries > 0 ? row.max_deliveries : plan.max_deliveries;
    const TopicOptions options{
        .capacity = plan.capacity, .lease = plan.lease, .max_deliveries = deliveries};
    TM_RETURN_IF_ERROR(bus.Open(row.name, options).WithContext(row.name));
  }
  return Ok();
}

}  // namespace tidemill
