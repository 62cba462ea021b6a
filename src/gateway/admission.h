// Who may come in now: the bounds on requests of all tenants and of each one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/clock.h"
#include "core/mutex.h"
#include "gateway/tenant.h"

namespace tidemill {

struct AdmissionLimits {
  size_t requests_max = 2048;  // waiting and running, all tenants together
};

// Thread-safe. Time comes from the caller.
class Admission {
 public:
  explicit Admission(AdmissionLimits limits) : limits_(limits) {}

  // A request's place; given back when it is destroyed. The Admission must outlive it.
  class Place {
   public:
    Place(Admission& admission, uint64_t tenant) : admission_(admission), tenant_(tenant) {}
    ~Place() { admission_.Leave(tenant_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Admission& admission_;
    const uint64_t tenant_;
  };

  struct Entry {
    std::unique_ptr<Place> place{};       // none: refused
    std::string why{};                    // where it was refused
    std::chrono::seconds retry_after{0};  // 1 to 60
  };
  Entry Enter(const Tenant& tenant, Time now);

  size_t inside() const;
  // By tenant id, those with any.
  std::map<uint64_t, size_t> InsideByTenant() const;

 private:
  // A bucket of requests that fills with the tenant's rate and holds ten seconds of it.
  struct Account {
    size_t inside = 0;
    double tokens = 0;
    Time filled{};
    bool started = false;
  };
  void Leave(uint64_t tenant);
  std::optional<Entry> OverRate(Account& account, const Tenant& tenant, Time now) const;

  const AdmissionLimits limits_;
  mutable Mutex mutex_;
  size_t inside_ TM_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Account> accounts_ TM_GUARDED_BY(mutex_);  // one for each key's tenant
};

}  // namespace tidemill
