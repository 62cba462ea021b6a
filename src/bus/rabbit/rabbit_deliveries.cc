#include "bus/rabbit/rabbit_deliveries.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace tidemill {
namespace {

constexpr size_t kWidthMax = 1000;

}  // namespace

std::string RabbitDeliveries::TopicOf(std::string_view consumer) {
  return std::string(consumer.substr(0, consumer.rfind('#')));
}

// A consumer's prefetch cannot be changed, so a wider one takes its place; what was delivered to
// the old one stays ours.
Status RabbitDeliveries::Sync(RabbitConnection& connection, ViewedTopic& topic, size_t& asks) {
  const auto found = windows_.find(topic.name);
  const size_t open = found == windows_.end() ? 0 : found->second.open();
  const bool may = topic.open && topic.opening == 0;
  const size_t have = topic.fetched.size();
  const size_t wanted =
      may && topic.demand > have ? std::min(topic.demand - have, kWidthMax) : size_t{0};
  topic.asked = open;
  if (wanted == 0) {
    return found == windows_.end() || topic.demand > 0 ? Ok()
                                                       : StopConsuming(connection, topic.name);
  }
  if (open > 0 && open >= wanted / 2) return Ok();
  TM_RETURN_IF_ERROR(StopConsuming(connection, topic.name));
  Window window = {.name = topic.name + "#" + std::to_string(next_consumer_++), .width = wanted};
  TM_RETURN_IF_ERROR(connection.Prefetch(channel_, static_cast<uint16_t>(wanted)));
  ++asks;
  TM_RETURN_IF_ERROR(
      connection.Consume(channel_, {.queue = names_.Topic(topic.name), .name = window.name}));
  windows_[topic.name] = std::move(window);
  topic.received = true;
  topic.asked = wanted;
  return Ok();
}

Status RabbitDeliveries::StopConsuming(RabbitConnection& connection, std::string_view topic) {
  const auto found = windows_.find(topic);
  if (found == windows_.end()) return Ok();
  const std::string name = std::move(found->second.name);
  windows_.erase(found);
  return connection.Cancel(channel_, name);
}

void RabbitDeliveries::Cancelled(std::string_view consumer) {
  const auto found = windows_.find(TopicOf(consumer));
  if (found != windows_.end() && found->second.name == consumer) windows_.erase(found);
}

std::string RabbitDeliveries::Note(RabbitDelivery delivery) {
  const auto found = windows_.find(delivery.topic);
  if (found != windows_.end() && found->second.name == delivery.consumer) ++found->second.used;
  ++counts_[delivery.topic];
  const uint64_t tag = delivery.tag;
  unacknowledged_[tag] = std::move(delivery);
  return std::to_string(connection_) + "." + std::to_string(tag);
}

RabbitDelivery* RabbitDeliveries::Find(std::string_view entry) {
  const size_t dot = entry.find('.');
  if (dot == std::string_view::npos || entry.substr(0, dot) != std::to_string(connection_)) {
    return nullptr;
  }
  uint64_t tag = 0;
  std::from_chars(entry.data() + dot + 1, entry.data() + entry.size(), tag);
  const auto found = unacknowledged_.find(tag);
  return found == unacknowledged_.end() ? nullptr : &found->second;
}

Status RabbitDeliveries::End(RabbitConnection& connection, uint64_t tag) {
  const auto found = unacknowledged_.find(tag);
  if (found == unacknowledged_.end()) return Ok();
  const RabbitDelivery& delivery = found->second;
  const auto window = windows_.find(delivery.topic);
  if (window != windows_.end() && window->second.name == delivery.consumer) {
    --window->second.used;
  }
  if (const auto count = counts_.find(delivery.topic); --count->second == 0) counts_.erase(count);
  unacknowledged_.erase(found);
  return connection.Ack(channel_, tag);
}

Status RabbitDeliveries::EndAll(RabbitConnection& connection, std::string_view topic) {
  std::vector<uint64_t> tags;
  for (const auto& [tag, delivery] : unacknowledged_) {
    if (delivery.topic == topic) tags.push_back(tag);
  }
  for (const uint64_t tag : tags) TM_RETURN_IF_ERROR(End(connection, tag));
  return Ok();
}

size_t RabbitDeliveries::Count(std::string_view topic) const {
  const auto found = counts_.find(topic);
  return found == counts_.end() ? 0 : found->second;
}

void RabbitDeliveries::Lose() {
  ++connection_;
  windows_.clear();
  unacknowledged_.clear();
  counts_.clear();
}

}  // namespace tidemill
