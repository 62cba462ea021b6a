// What the run's queues and exchanges on the broker are called. docs/bus.md lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bus/rabbit/rabbit_connection.h"
#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

// kInvalid: a run that queues cannot be named after.
Status CheckRabbitRun(std::string_view run);

struct RabbitNames {
  explicit RabbitNames(std::string_view run) : prefix(std::string(run) + "/") {}
  std::string prefix;

  std::string Topic(std::string_view topic) const { return prefix + "t/" + std::string(topic); }
  // Where messages are delayed: they move on when the queue's time is over.
  std::string Parking(Duration level) const;
  // The exchange that tells every member of the run, and a member's queue there.
  std::string Book() const { return prefix + "book"; }
  std::string Member(std::string_view client) const {
    return prefix + "member/" + std::string(client);
  }
  // Where newcomers ask the members for what is in the book.
  std::string Newcomers() const { return prefix + "newcomers"; }
  std::string Object(std::string_view name) const { return prefix + "object/" + std::string(name); }
};

// The shortest parking time that is no shorter than `delay`; at most a quarter longer. Delays over
// 24 days are that long.
Duration ParkingLevel(Duration delay);
// All there are.
std::vector<Duration> ParkingLevels();

// Topics of one worker, which go by themselves an hour after the last one that used them.
bool IsOwnTopic(std::string_view topic);

RabbitQueue TopicQueue(const RabbitNames& names, std::string_view topic, bool quorum);
RabbitQueue ParkingQueue(const RabbitNames& names, Duration level, bool quorum);
RabbitQueue MemberQueue(const RabbitNames& names, std::string_view client);
RabbitQueue NewcomersQueue(const RabbitNames& names);
RabbitQueue ObjectQueue(const RabbitNames& names, std::string_view name);

// Unique, also among runs of one program under one name.
std::string NewRabbitClient(std::string_view name);

}  // namespace tidemill
