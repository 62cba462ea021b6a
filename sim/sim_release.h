// A learner that publishes, evaluations that come late and an engine that holds a few versions,
// around the real release book: what clients of the simulation are answered from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "live/release_book.h"
#include "sim/sim_store.h"
#include "sim/world.h"

namespace tidemill::sim {

class SimRelease {
 public:
  // `swaps`: the planted bug. The engine draws pinned answers from its newest version.
  SimRelease(World& world, SimStore& store, ProcessId process, bool swaps);

  // The version a request of the session is pinned to. Fails the world if a session changes its
  // version although what is on offer did not change, or if the engine does not have it.
  uint64_t Pin(uint64_t session);
  // The versions that an answer of so many tokens is drawn from.
  std::vector<TokenVersionRun> Draw(uint64_t pin, uint32_t tokens);

  uint64_t released() const { return releases_; }  // how often another version was

 private:
  static constexpr size_t kPlaces = 4;

  void Publish();
  void Carry(const ReleaseOrders& orders);
  void SetBack(uint64_t to);
  int64_t Now() const;
  void Later(uint64_t within_ms, std::function<void()> what);

  World& world_;
  SimStore& store_;
  const ProcessId process_;
  const bool swaps_;
  uint64_t newest_;
  uint64_t step_ = 0;
  ReleaseBook book_;
  std::set<uint64_t> held_, numbers_;
  // Of a session, what was on offer when it got its version.
  std::map<uint64_t, std::pair<std::pair<uint64_t, uint64_t>, uint64_t>> given_;
  uint64_t releases_ = 0, last_released_ = 1;
  int publications_left_ = 0;
};

}  // namespace tidemill::sim
