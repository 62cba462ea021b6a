// A worker that lies: what its process sends is altered at random, each field within its type. And
// the account of it, from which checkers know what a forgery may have touched.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/random.h"
#include "proto/tidemill.pb.h"

namespace tidemill::sim {

// The group a message of this topic is about; 0: none, or it cannot be read.
uint64_t GroupOfMessage(std::string_view topic, const std::string& body);

// Messages that were forged, by all processes together.
class ForgeryLedger {
 public:
  void Forged(uint64_t group, const std::string& body) {
    touched_.insert(group);
    altered_.insert(StableHash(body));
  }
  // A trajectory as an honest worker published it.
  void Honest(const v1::Trajectory& trajectory);
  // The message is the same, whatever a planted bug made of it.
  void Renamed(const std::string& before, const std::string& after) {
    if (altered_.count(StableHash(before)) != 0) altered_.insert(StableHash(after));
  }
  bool Touched(uint64_t group) const { return touched_.count(group) != 0; }
  // Whether the message may be refused without anybody being to blame but the forger.
  bool Excuses(std::string_view topic, const std::string& body) const {
    return altered_.count(StableHash(body)) != 0 || Touched(GroupOfMessage(topic, body));
  }
  // Whether this is what somebody honest published, but for what replay adds.
  bool IsHonest(const v1::Trajectory& trajectory) const;

 private:
  static uint64_t HashOf(v1::Trajectory trajectory);

  std::set<uint64_t> touched_;                                          // groups
  std::set<uint64_t> altered_;                                          // hashes of bodies
  std::map<std::pair<uint64_t, uint32_t>, std::set<uint64_t>> honest_;  // by group, member
};

// Alters one field of a message of the topic, drawn from all it has. Returns the body as it was
// where the topic is none that workers write to.
std::string Forge(std::string_view topic, const std::string& body, Random& random);

}  // namespace tidemill::sim
