#include "gateway/passing_keys.h"

#include "core/hash.h"
#include "gateway/api_keys.h"

namespace tidemill {

void PassingKeys::Add(std::string_view key, Tenant tenant) {
  MutexLock lock(mutex_);
  tenants_[Sha256Hex(key)] = std::move(tenant);
}

void PassingKeys::Remove(std::string_view key) {
  MutexLock lock(mutex_);
  tenants_.erase(Sha256Hex(key));
}

std::optional<Tenant> PassingKeys::Find(std::string_view authorization,
                                        std::string_view x_api_key) const {
  const std::string by_header = Sha256Hex(x_api_key),
                    by_bearer = Sha256Hex(BearerOf(authorization));
  MutexLock lock(mutex_);
  for (const std::string* hash : {&by_header, &by_bearer}) {
    if (const auto it = tenants_.find(*hash); it != tenants_.end()) return it->second;
  }
  return std::nullopt;
}

}  // namespace tidemill
