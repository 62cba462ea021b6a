// What the broker has delivered to this client and not had acknowledged, and the consumers it comes
// to. A consumer's prefetch is what its topic's Receive asked for, so that nothing is fetched that
// nobody asked for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bus/client_view.h"
#include "bus/rabbit/rabbit_connection.h"
#include "bus/rabbit/rabbit_names.h"

namespace tidemill {

struct RabbitDelivery {
  uint64_t tag = 0;
  std::string topic;
  std::string consumer;
  RabbitMessage message;
  uint32_t before = 0;  // deliveries before this one
};

// Belongs to one thread.
class RabbitDeliveries {
 public:
  RabbitDeliveries(const RabbitNames& names, uint16_t channel) : names_(names), channel_(channel) {}

  // Opens, widens or ends the topic's consumer as its demand is. `asks` counts the answers that
  // will come.
  Status Sync(RabbitConnection& connection, ViewedTopic& topic, size_t& asks);
  Status StopConsuming(RabbitConnection& connection, std::string_view topic);
  // The broker ended it.
  void Cancelled(std::string_view consumer);
  static std::string TopicOf(std::string_view consumer);

  // The delivery as a call of the view names it.
  std::string Note(RabbitDelivery delivery);
  // null: not of this connection, or ended already.
  RabbitDelivery* Find(std::string_view entry);
  // To the broker: it is done with.
  Status End(RabbitConnection& connection, uint64_t tag);
  // All of the topic are void: it is being removed.
  Status EndAll(RabbitConnection& connection, std::string_view topic);
  size_t Count(std::string_view topic) const;
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [tag, delivery] : unacknowledged_) visit(delivery);
  }
  // The connection was lost, and all this with it.
  void Lose();

 private:
  struct Window {
    std::string name;
    size_t width = 0;
    size_t used = 0;  // delivered and not acknowledged
    size_t open() const { return width > used ? width - used : 0; }
  };

  const RabbitNames& names_;
  const uint16_t channel_;
  uint64_t connection_ = 1;
  uint64_t next_consumer_ = 1;
  std::map<std::string, Window, std::less<>> windows_;  // by topic
  std::unordered_map<uint64_t, RabbitDelivery> unacknowledged_;
  std::map<std::string, size_t, std::less<>> counts_;
};

}  // namespace tidemill
