#include "sim/faulty_bus.h"

#include <utility>

#include "core/group_token.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"
#include "sim/sim_background.h"

namespace tidemill::sim {

void LeaseLedger::Delivered(ProcessId holder, const Lease& lease) {
  const std::string key = lease.topic + "/" + lease.id;
  auto it = holders_.find(key);
  if (it != holders_.end() && excused_.erase(key) == 0) {
    world_.verdict().Fail("the lease of a message of " + lease.topic +
                          " ran out although its holder lives (delivery " +
                          std::to_string(lease.deliveries) + ")");
  }
  holders_[key] = holder;
}

void LeaseLedger::Died(ProcessId holder) {
  for (const auto& [key, process] : holders_) {
    if (process == holder) excused_.insert(key);
  }
}

std::string FaultyBus::Sent(std::string_view topic, std::string body) {
  if (faults_.forge > 0 && world_.random().Chance(faults_.forge)) {
    std::string altered = Forge(topic, body, world_.random());
    if (altered != body) {
      world_.Trace("a message of " + std::string(topic) + " about group " +
                   std::to_string(GroupOfMessage(topic, body)) + " is forged");
      forgeries_.Forged(GroupOfMessage(topic, body), altered);
      world_.Fault("message forged");
      return altered;
    }
  }
  v1::Trajectory trajectory;
  if (topic == kTrajectoriesTopic && trajectory.ParseFromString(body)) {
    if (IsOfBackground(faults_.in_episodes)) {
      PlantInEpisode(faults_.in_episodes, trajectory);
      body = trajectory.SerializeAsString();
    }
    forgeries_.Honest(trajectory);
  }
  return body;
}

Status FaultyBus::Room(Status published) {
  if (published.code() == Code::kFull) world_.Fault("topic full");
  return published;
}

Status FaultyBus::Publish(std::string_view topic, std::string body) {
  body = Sent(topic, std::move(body));
  if (topic == kDispatchTopic && world_.tracing()) {
    v1::DispatchEvent event;
    if (event.ParseFromString(body)) world_.Trace("report: " + event.ShortDebugString());
  }
  if (faults_.swallow_dropped && topic == kDispatchTopic) {
    v1::DispatchEvent event;
    if (event.ParseFromString(body) && event.has_group() && event.group().dropped() > 0)
      return Ok();
  }
  const bool repeat = world_.random().Chance(faults_.repeat);
  std::string again = repeat ? body : std::string();
  const Status status = Room(bus_.Publish(topic, std::move(body)));
  if (status.ok() && repeat) {
    world_.Fault("message repeated");
    world_.Trace("bus repeats a message of " + std::string(topic));
    world_.After(milliseconds(world_.random().Below(3000)), process_,
                 [this, topic = std::string(topic), again] { (void)bus_.Publish(topic, again); });
  }
  return status;
}

Status FaultyBus::PublishReply(std::string_view inbox, std::string body) {
  body = Sent(inbox, std::move(body));
  const bool repeat = world_.random().Chance(faults_.repeat);
  if (repeat) world_.Fault("message repeated");
  if (repeat) (void)bus_.PublishReply(inbox, body);
  return bus_.PublishReply(inbox, std::move(body));
}

Result<std::vector<Lease>> FaultyBus::Receive(std::string_view topic, size_t max) {
  Result<std::vector<Lease>> leases = bus_.Receive(topic, max);
  if (!leases.ok()) return leases;
  for (Lease& lease : *leases) {
    ledger_.Delivered(process_, lease);
    v1::Trajectory trajectory;
    if (faults_.forged_tokens.empty() || topic != kTrajectoriesTopic) continue;
    if (!trajectory.ParseFromString(lease.body)) continue;
    trajectory.set_token(GroupToken(faults_.forged_tokens, trajectory));
    const std::string before = std::exchange(lease.body, trajectory.SerializeAsString());
    forgeries_.Renamed(before, lease.body);
  }
  return leases;
}

Status FaultyBus::Ack(const Lease& lease) {
  const Status status = bus_.Ack(lease);
  if (status.ok()) {
    ledger_.Gone(lease);
    if (ack_check_ && lease.topic == ack_topic_) ack_check_(lease);
  }
  return status;
}

Status FaultyBus::Extend(const Lease& lease) {
  if (faults_.swallow_extend) return Ok();
  if (world_.random().Chance(faults_.lose_lease)) {
    world_.Trace("bus takes a lease of " + lease.topic + " away");
    world_.Fault("lease taken away");
    ledger_.Excuse(lease.topic, lease.id);
    (void)bus_.Release(lease, Duration(0));
    return NotFound("the lease was lost");
  }
  return bus_.Extend(lease);
}

Status FaultyBus::Release(const Lease& lease, Duration delay) {
  ledger_.Excuse(lease.topic, lease.id);
  return bus_.Release(lease, delay);
}

Status FaultyBus::Reject(const Lease& lease, std::string_view reason) {
  ledger_.Gone(lease);
  world_.Trace("a message of " + lease.topic + " is refused: " + std::string(reason));
  if (!forgeries_.Excuses(lease.topic, lease.body)) {
    world_.verdict().Fail("a message of " + lease.topic +
                          " that nobody forged was refused: " + std::string(reason));
  }
  return bus_.Reject(lease, reason);
}

}  // namespace tidemill::sim
