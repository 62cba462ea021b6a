#include "sim/sim_keys.h"

#include <utility>

#include "core/random.h"

namespace tidemill::sim {

std::vector<float> SimKey(const std::string& prompt) {
  Random numbers(StableHash(prompt));
  std::vector<float> key;
  for (int i = 0; i < 4; ++i) key.push_back(static_cast<float>(0.5 + numbers.Uniform()));
  return key;
}

void SimKeys::Submit(KeyCall call) {
  Random& random = world_.random();
  // Longer than a lease at times.
  const double ms = random.Chance(0.05) ? 2000 + random.Uniform() * 6000 : random.LogNormal(20, 1);
  KeyDone done{call.tag, Ok(), SimKey(call.prompt)};
  if (random.Chance(0.1)) {
    world_.Fault("prompt not read");
    done.key.assign(done.key.size(), 0);
    if (!failure_is_a_key_) done.status = Internal("the simulated reader failed");
  }
  world_.After(std::chrono::microseconds(static_cast<int64_t>(ms * 1000)), process_,
               [this, done = std::move(done)] { events_.Post(done); });
}

}  // namespace tidemill::sim
