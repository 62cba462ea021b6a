// The bus of a process: in memory, on a broker, or for the learner of a fleet both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bus/broker_bus.h"
#include "bus/memory/memory_bus.h"
#include "bus/split_bus.h"
#include "run/process.h"

namespace tidemill {

class BusHost final : public Host {
 public:
  explicit BusHost(Process& process) : process_(process) {}
  // Removes the topics of the fleet's bus that nobody else reads.
  ~BusHost() override;
  Status Open();
  void Sink(MetricSink& sink) const override;

 private:
  std::vector<std::string> OwnTopics() const;

  Process& process_;
  std::unique_ptr<MemoryBus> memory_;
  std::unique_ptr<BusTicker> ticker_;
  std::unique_ptr<SplitBus> split_;  // of the learner of a fleet
};

}  // namespace tidemill
