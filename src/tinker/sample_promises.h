// Promises of samples. They live in memory alone: after a restart their ids are unknown and clients
// ask anew. Results that nobody collects go, the oldest first, when they are too many bytes.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/status.h"
#include "tinker/books.h"

namespace tidemill {

struct SamplePromiseLimits {
  size_t waiting_max = 16384;                // asked and not answered
  size_t bytes_max = size_t{256} << 20;      // of results
  Duration keep = std::chrono::minutes(10);  // a result
};

// Thread-safe.
class SamplePromises {
 public:
  // `mark` tells the ids of one process from those of another.
  SamplePromises(std::string mark, SamplePromiseLimits limits)
      : mark_(std::move(mark)), limits_(limits) {}

  struct Made {
    std::string id;
    bool fresh = true;  // false: the sampler's request of this number was made before
  };
  // kFull: too many wait, of all or of the tenant, who has a half of what is free at most and with
  // a bound of its own (0: none) no more than that.
  Result<Made> Make(const std::string& tenant, uint32_t tenant_max, const std::string& sampler,
                    uint64_t seq);
  void Finish(const std::string& id, OpResult result, Time now);
  // Nothing: there is none of this id and tenant (any more).
  std::optional<OpResult> Find(const std::string& id, const std::string& tenant) const;
  void ForgetOld(Time now);

  static bool IsId(std::string_view id) { return id.starts_with("s."); }
  size_t bytes() const;
  size_t waiting() const;

 private:
  using Key = std::pair<std::string, uint64_t>;
  struct Promise {
    std::string tenant;
    Key key;
    OpResult result;
    Time finished{};
    std::list<std::string>::iterator place;  // in done_, once it is
  };
  // One that is done.
  void Forget(std::map<std::string, Promise>::iterator it) TM_REQUIRES(mutex_);

  const std::string mark_;
  const SamplePromiseLimits limits_;
  mutable Mutex mutex_;
  uint64_t next_ TM_GUARDED_BY(mutex_) = 1;
  std::map<std::string, Promise> promises_ TM_GUARDED_BY(mutex_);
  std::map<Key, std::string> by_key_ TM_GUARDED_BY(mutex_);
  std::map<std::string, size_t> waiting_of_ TM_GUARDED_BY(mutex_);  // by tenant
  size_t waiting_ TM_GUARDED_BY(mutex_) = 0;
  std::list<std::string> done_ TM_GUARDED_BY(mutex_);  // the oldest first
  size_t bytes_ TM_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidemill
