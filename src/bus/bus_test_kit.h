// Small things that tests of a bus share.
#pragma once

#include <string>
#include <vector>

#include "bus/bus.h"
#include "core/test_kit.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

inline std::vector<std::string> Bodies(const std::vector<Lease>& leases) {
  std::vector<std::string> bodies;
  for (const Lease& lease : leases) bodies.push_back(lease.body);
  return bodies;
}

// Why the dead letters that wait are dead; they are taken off.
inline std::vector<std::string> TakeDeadLetterReasons(Bus& bus) {
  std::vector<std::string> reasons;
  for (const Lease& lease : bus.Receive(kDeadTopic, 100).value()) {
    v1::DeadLetter letter;
    EXPECT_TRUE(letter.ParseFromString(lease.body));
    reasons.push_back(letter.reason());
    EXPECT_TRUE(bus.Ack(lease).ok());
  }
  return reasons;
}

}  // namespace tidemill
