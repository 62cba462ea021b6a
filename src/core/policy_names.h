// Which policy of a run: a number in memory, a name in messages.
//
//   v1::GroupLease::policy, v1::Turn::policy, .. -> PolicyNames::Find -> PolicyId
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"

namespace tidemill {

// A policy of a process: the base with an adapter, the base alone, or weights of its own. kMain is
// the one that an engine is started with; others are numbered from 1 on by whoever publishes them.
enum class PolicyId : uint32_t { kMain = 0 };

// The policies of a run. Whoever takes a message in makes an id of the name in it, here and once;
// nobody else compares names. Not changed once it is made.
class PolicyNames {
 public:
  // Of the policies beside the default one, in the order of their numbers from 1 on.
  explicit PolicyNames(std::vector<std::string> beside = {}) : beside_(std::move(beside)) {}

  size_t size() const { return beside_.size() + 1; }
  // `name` as it is in messages, where the default policy has none. kInvalid names it.
  Result<PolicyId> Find(std::string_view name) const {
    if (name.empty()) return PolicyId::kMain;
    for (size_t i = 0; i < beside_.size(); ++i) {
      if (beside_[i] == name) return PolicyId{static_cast<uint32_t>(i + 1)};
    }
    return Invalid("this run has no policy \"" + std::string(name) + "\"");
  }
  // As Find takes it.
  std::string NameOf(PolicyId policy) const {
    const auto number = static_cast<size_t>(policy);
    return number == 0 ? "" : beside_.at(number - 1);
  }
  // For people.
  std::string Shown(PolicyId policy) const {
    return policy == PolicyId::kMain ? "default" : NameOf(policy);
  }

 private:
  std::vector<std::string> beside_;
};

}  // namespace tidemill
