// Who asks: the owner of an API key, with what it may use and what may become of its data.
#pragma once

#include <cstdint>
#include <string>

namespace tidemill {

// Tenants as the engine knows them; 0 is none.
inline constexpr uint64_t kDefaultTenant = 1;   // where there are no keys
inline constexpr uint64_t kAgentTenant = 2;     // agents' episodes share what they have in common
inline constexpr uint64_t kFirstKeyTenant = 3;  // from here on they follow from the names of keys

enum class Consent : uint8_t {
  kTrain,  // may be stored and trained on
  kStore,  // may be stored, never trained on
  kNone,   // nothing of it is kept longer than its answer takes
};

struct Tenant {
  std::string name = "default";
  uint64_t id = kDefaultTenant;
  Consent consent = Consent::kStore;
  double requests_per_minute = 0;  // 0: no bound
  uint32_t concurrency = 0;        // requests at once, waiting ones counted; 0: no bound
  bool metrics = false;            // may read /metrics, which is about all tenants
  std::string policy{};            // the adapter that answers it; empty: the one it names
  std::string session{};           // every request of the key is of this one; empty: as it says
};

}  // namespace tidemill
