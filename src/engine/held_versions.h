// Which weights an engine holds, where, and which of them sequences are pinned to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/status.h"
#include "model/policy_version.h"

namespace tidemill {

// The main policy has places of its own; all others share the rest. Of every policy that is known
// the newest version is held, and there is always a place for its next one: a pin or a policy that
// would leave none is refused. Older versions stay until their place is needed. Not thread-safe.
class HeldVersions {
 public:
  // `version` of the main policy is in place 0.
  HeldVersions(int32_t versions, int32_t adapters, uint64_t version);

  // None: the policy is not known.
  std::optional<uint64_t> Newest(PolicyId policy) const;
  uint64_t newest() const { return *Newest(PolicyId::kMain); }
  size_t held() const;
  size_t policies() const { return newest_.size(); }
  // Where these weights are, which are held.
  int32_t PlaceOf(const PolicyVersion& weights) const;

  // kNotFound: the version is not held. kUnavailable: to hold it, there would be no place left for
  // new weights.
  Status Pin(const PolicyVersion& weights);
  void Unpin(const PolicyVersion& weights);
  // The main policy's weights of `version` get a second number while they are held. kNotFound: they
  // are not.
  Status Alias(uint64_t version, uint64_t as);

  // Where new weights of the policy go: a place with nothing in it, else that of the oldest that
  // are neither pinned nor the newest of their policy, else that of the policy's own newest.
  // kUnavailable: the policy is not known, and there is no room for another.
  Result<int32_t> PlaceForNew(PolicyId policy) const;
  // They are there. Returns the names of the weights that are not held any more.
  std::vector<PolicyVersion> Took(int32_t place, const PolicyVersion& weights);
  // The policy is not known any more, and its places are empty; no version of it is pinned.
  // Returns as Took.
  std::vector<PolicyVersion> Forget(PolicyId policy);

 private:
  struct Held {
    PolicyVersion weights;
    uint64_t taken = 0;  // when, by taken_
    size_t pins = 0;
    std::vector<uint64_t> also{};  // other numbers of the same version
    bool Is(const PolicyVersion& name) const;
  };
  struct Range {
    size_t first, last;
  };
  Range RangeOf(PolicyId policy) const;
  bool IsNewest(size_t place) const;
  bool Reusable(size_t place) const;
  // Places of the range that new weights can take, less those that policies with a pinned newest
  // version will need for their next.
  int64_t Spare(const Range& range) const;
  std::vector<PolicyVersion> Empty(size_t place);

  std::vector<std::optional<Held>> places_;
  size_t main_places_;
  std::map<PolicyId, size_t> newest_;  // where it is
  uint64_t taken_ = 0;
};

}  // namespace tidemill
