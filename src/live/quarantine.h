// Which sessions are kept from training because their rewards look wrong: one that is far from all
// others of its tenant and class, and all of a tenant whose rewards changed at once. They stay
// stored and are shown; an operator admits or discards them. No I/O, no clock, no threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/status.h"
#include "live/live_baseline.h"

namespace tidemill {

struct QuarantineOptions {
  // A reward further than so many deviations from the mean of the others; 0: off.
  double outlier = 0;
  // The mean of a tenant's newest rewards differs by more than this from that of those before; 0:
  // off.
  double change = 0;
};

// Not thread-safe.
class Quarantine {
 public:
  static constexpr size_t kOthersMin = 16;       // to call one an outlier
  static constexpr double kDeviationMin = 0.25;  // of the others: rewards that are all alike
  static constexpr size_t kRecent = 24;          // rewards of a tenant that are compared
  static constexpr size_t kBefore = 72;          // with so many before them

  // `earlier`: the Json of an earlier process, or nothing.
  explicit Quarantine(const QuarantineOptions& options, const std::string& earlier = "");

  // The session's reward, the first or a revised one.
  void Put(const std::string& tenant, uint64_t session, double reward,
           const LiveBaseline::Comparison& others);
  // Whether the session is kept from training. What is held so waits for a decision.
  bool Holds(const std::string& tenant, uint64_t session);

  // An operator has looked: what is held of the tenant is trained on, or never. Its sessions.
  // kNotFound: nothing of it is held.
  Result<std::vector<uint64_t>> Decide(const std::string& tenant, bool train);
  // The session was deleted.
  void Forget(const std::string& tenant, uint64_t session);

  size_t sessions() const { return held_.size(); }
  size_t tenants() const { return changed_.size(); }
  // {"tenants": [{"tenant", "why", "sessions"}], "sessions": [{"session", "tenant", "why"}],
  // "admitted": {TENANT: SESSION}, "discarded": [..]}
  std::string Json() const;

 private:
  struct Reward {
    uint64_t session;
    double value;
  };
  struct Held {
    std::string tenant;
    std::string why;
    bool outlier = false;
  };
  void Restore(const std::string& earlier);
  bool Admitted(const std::string& tenant, uint64_t session) const;
  void LookForChange(const std::string& tenant, const std::deque<Reward>& rewards);

  const QuarantineOptions options_;
  std::map<std::string, std::deque<Reward>> rewards_;  // of each tenant, the newest last
  std::map<std::string, std::string> changed_;         // tenants, with the reason
  std::map<uint64_t, Held> held_;                      // by session
  std::map<std::string, uint64_t> admitted_;           // tenant -> up to this session
  std::set<uint64_t> discarded_;
};

}  // namespace tidemill
