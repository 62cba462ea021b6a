// Who may come in now: the bounds on requests of all tenants and of each one. Nobody can take every
// place: who is inside may be so as often as eight times the places that are still free.
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
#include "http/request_owner.h"

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
    Place(Admission& admission, RequestOwner owner) : admission_(admission), owner_(owner) {}
    ~Place() { admission_.Leave(owner_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Admission& admission_;
    const RequestOwner owner_;
  };

  struct Entry {
    std::unique_ptr<Place> place{};       // none: refused
    std::string why{};                    // where it was refused
    std::chrono::seconds retry_after{0};  // 1 to 60
  };
  // By the server's own address, or by an entrance of its own: each is counted by itself.
  Entry Enter(const Tenant& tenant, Time now, uint64_t entrance = 0);

  size_t inside() const;

 private:
  // A bucket of requests that fills with the tenant's rate and holds ten seconds of it.
  struct Account {
    size_t inside = 0;
    double tokens = 0;
    Time filled{};
    bool started = false;
  };
  void Leave(RequestOwner owner);
  std::optional<Entry> OverRate(Account& account, const Tenant& tenant, Time now) const;

  const AdmissionLimits limits_;
  mutable Mutex mutex_;
  size_t inside_ TM_GUARDED_BY(mutex_) = 0;
  // Those who are inside, and all that have a rate.
  std::map<RequestOwner, Account> accounts_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
