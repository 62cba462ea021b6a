#include "run/bus_host.h"

#include <set>

#include "bus/standard_topics.h"
#include "core/topics.h"

namespace tidemill {

Status BusHost::Open() {
  const RunConfig& config = process_.config;
  const TopicPlan plan{.lease = config.bus.lease, .capacity = config.bus.capacity};
  const Roles& here = process_.request.roles;
  std::string& worker = process_.start.worker;
  if (!process_.request.worker.empty()) worker = process_.request.worker;
  process_.start.alone = process_.alone();
  if (!here.learner) {
    process_.ports.bus = process_.request.fleet;
    return OpenStandardTopics(*process_.ports.bus, plan,
                              here.rollout ? "rollout"
                              : here.tools ? "tools"
                                           : "reward");
  }
  memory_ = std::make_unique<MemoryBus>(process_.clock);
  ticker_ = std::make_unique<BusTicker>(*memory_);
  process_.ports.bus = memory_.get();
  if (!process_.alone()) {
    // Verdicts for a predecessor go to its inbox, not to ours: all that are missing are asked for
    // again, and a worker that found its inbox gone has nothing to remember of ours.
    worker = "learner." + std::to_string(static_cast<uint64_t>(process_.clock.WallMs()));
    std::set<std::string, std::less<>> inside = {InboxTopic(worker, "learner"),
                                                 InboxTopic(worker, "taught")};
    for (const TopicRow& row : kTopics) {
      if (row.inside) inside.insert(std::string(row.name));
    }
    split_ = std::make_unique<SplitBus>(*process_.request.fleet, *memory_, std::move(inside));
    process_.ports.bus = split_.get();
  }
  return OpenStandardTopics(*process_.ports.bus, plan);
}

BusHost::~BusHost() {
  BrokerBus* const fleet = process_.request.fleet;
  if (fleet == nullptr) return;
  fleet->UnsubscribeAll();
  for (const std::string& topic : OwnTopics()) (void)fleet->Remove(topic);
}

void BusHost::Sink(MetricSink& sink) const {
  if (!process_.alone()) SinkBus(process_.request.fleet->Stats(), sink);
}

std::vector<std::string> BusHost::OwnTopics() const {
  const Roles& here = process_.request.roles;
  const std::string& worker = process_.start.worker;
  if (here.learner) return {InboxTopic(worker, "replay")};
  if (here.tools) return {ToolCancelTopic(worker), ToolBoxTopic(worker)};
  if (here.rollout) return {InboxTopic(worker, "rollout")};
  return {InboxTopic(worker, "reward"), InboxTopic(worker, "judged")};
}

}  // namespace tidemill
