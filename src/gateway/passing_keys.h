// Keys that come and go while the gateway runs: one for each agent's episode, which dies with it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/mutex.h"
#include "gateway/tenant.h"

namespace tidemill {

// Thread-safe. Keys are random and found by their hash, so how long a search takes tells nothing
// about them.
class PassingKeys {
 public:
  void Add(std::string_view key, Tenant tenant);
  void Remove(std::string_view key);
  // By the headers of a request, as ApiKeys.
  std::optional<Tenant> Find(std::string_view authorization, std::string_view x_api_key) const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, Tenant> tenants_ TM_GUARDED_BY(mutex_);  // by the key's SHA-256
};

}  // namespace tidemill
