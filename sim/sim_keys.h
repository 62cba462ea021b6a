// Keys of prompts that come after a drawn time, and at times not at all. The key of a prompt
// follows from its text, so that the database can tell whether a case has its own.
#pragma once

#include <string>
#include <vector>

#include "memory/key_port.h"
#include "sim/world.h"

namespace tidemill::sim {

// In every fourth run: half of those with memory.
inline bool WithKeys(uint64_t seed) {
  return seed % 4 == 0;
}

std::vector<float> SimKey(const std::string& prompt);

class SimKeys final : public KeyPort {
 public:
  // `failure_is_a_key`: planted bug.
  SimKeys(World& world, ProcessId process, bool failure_is_a_key)
      : world_(world), process_(process), failure_is_a_key_(failure_is_a_key), events_(100'000) {}

  void Submit(KeyCall call) override;
  Mailbox<KeyDone>& events() override { return events_; }

 private:
  World& world_;
  ProcessId process_;
  bool failure_is_a_key_;
  Mailbox<KeyDone> events_;
};

}  // namespace tidemill::sim
