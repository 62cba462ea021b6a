#include "bus/rabbit/rabbit_bus.h"

#include <functional>
#include <utility>
#include <vector>

#include "bus/rabbit/rabbit_client.h"
#include "bus/rabbit/rabbit_figures.h"
#include "bus/rabbit/rabbit_io.h"
#include "bus/rabbit/rabbit_names.h"
#include "bus/rabbit/rabbit_roster.h"
#include "bus/topic_rules.h"
#include "core/topics.h"

namespace tidemill {
namespace {

ClientViewOptions WithLeases(ClientViewOptions options) {
  options.keeps_leases = true;
  return options;
}

}  // namespace

RabbitBus::RabbitBus(RabbitBusOptions options)
    : BrokerBus(WithLeases(options.local), options.clock), options_(std::move(options)) {}

Result<std::unique_ptr<RabbitBus>> RabbitBus::Connect(RabbitBusOptions options) {
  TM_ASSIGN_OR_RETURN(RabbitAddress address, ParseRabbitUrl(options.url));
  TM_RETURN_IF_ERROR(CheckRabbitRun(options.run));
  std::unique_ptr<RabbitBus> bus(new RabbitBus(std::move(options)));
  TopicOptions dead;
  dead.capacity = kDeadCapacity;
  {
    MutexLock lock(bus->shared().mutex);
    bus->shared().local.OpenDeadLetters(dead);
  }
  auto io = std::make_unique<RabbitIo>(
      bus->options_, std::move(address), bus->clock(), bus->shared(),
      [raw = bus.get()](const std::string& topic) { raw->WakeTopic(topic); });
  TM_RETURN_IF_ERROR(io->Start());
  bus->Carry(std::move(io));
  return bus;
}

// Whoever waits for a learner of the run stays a member of its book.
Status RemoveRabbitRun(const std::string& url, std::string_view run) {
  TM_ASSIGN_OR_RETURN(RabbitClient client, RabbitClient::Connect(url, run));
  TM_RETURN_IF_ERROR(client.EraseAllBut({std::string(kFiguresNote), std::string(kBeatNote)}));
  const RabbitNames& names = client.names();
  std::vector<std::string> queues = {names.Topic(kDeadTopic)};
  for (const TopicRow& row : kTopics) queues.push_back(names.Topic(row.name));
  std::vector<std::string> exchanges;
  for (const Duration level : ParkingLevels()) {
    queues.push_back(names.Parking(level));
    exchanges.push_back(names.Parking(level));
  }
  return client.OnChannel([&](RabbitClient::Channel& channel) -> Status {
    const auto ask = [&](const std::function<Status(RabbitConnection&, uint16_t)>& send) {
      return channel.Ask(send).status();
    };
    for (const std::string& queue : queues) {
      TM_RETURN_IF_ERROR(ask([&](RabbitConnection& connection, uint16_t number) {
        return connection.Delete(number, queue);
      }));
    }
    for (const std::string& exchange : exchanges) {
      TM_RETURN_IF_ERROR(ask([&](RabbitConnection& connection, uint16_t number) {
        return connection.DeleteExchange(number, exchange);
      }));
    }
    return Ok();
  });
}

}  // namespace tidemill
