// Which policy published which version at which of its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/policy_names.h"
#include "core/version_steps.h"

namespace tidemill {

// Numbers of versions are given once in a run, whatever policy they are of; each policy counts its
// own steps. Not thread-safe.
class PolicyVersions {
 public:
  void Published(PolicyId policy, uint64_t version, uint64_t step) {
    of_[policy].Published(version, step);
    owners_[version] = policy;
    while (owners_.size() > kRemembered) owners_.erase(owners_.begin());
  }
  // None are known of a policy that published none.
  const VersionSteps& Of(PolicyId policy) const {
    static const VersionSteps kNone;
    const auto found = of_.find(policy);
    return found == of_.end() ? kNone : found->second;
  }
  // kInvalid: the version was never published, or is another policy's.
  Status Check(PolicyId policy, uint64_t version) const {
    const auto owner = owners_.find(version);
    if (owner != owners_.end() && owner->second != policy) {
      return Invalid("version " + std::to_string(version) + " is of another policy");
    }
    const VersionSteps& own = Of(policy);
    if (own.Known(version)) return Ok();
    const uint64_t newest = own.all().empty() ? 0 : own.all().rbegin()->first;
    return Invalid("version " + std::to_string(version) + " was not published; the newest is " +
                   std::to_string(newest));
  }

 private:
  static constexpr size_t kRemembered = 65536;
  std::map<PolicyId, VersionSteps> of_;
  std::map<uint64_t, PolicyId> owners_;  // of versions, the newest many
};

}  // namespace tidemill
