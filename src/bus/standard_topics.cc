#include "bus/standard_topics.h"

#include "core/topics.h"

namespace tidemill {

Status OpenStandardTopics(Bus& bus, const TopicPlan& plan) {
  TopicOptions options{
      .capacity = plan.capacity, .lease = plan.lease, .max_deliveries = plan.max_deliveries};
  for (std::string_view topic :
       {kDispatchTopic, kGivenUpTopic, kTrajectoriesTopic, kBatchRequestsTopic, kScoreTopic,
        kToolsCompileTopic, kToolsTestsTopic, kToolsLintTopic, kToolsFilesTopic, kToolsCommandTopic,
        kToolsGradeTopic}) {
    TM_RETURN_IF_ERROR(bus.Open(topic, options).WithContext(topic));
  }
  // A group outlives many workers: whoever gets it too often reports it as given up, which a dead
  // letter would not.
  options.max_deliveries = 100;
  return bus.Open(kGroupsTopic, options).WithContext(kGroupsTopic);
}

}  // namespace tidemill
