// Which policy tokens are drawn from, and which of its published versions.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/policy_names.h"

namespace tidemill {

// Each policy counts its own versions.
struct PolicyVersion {
  PolicyId policy = PolicyId::kMain;
  uint64_t version = 0;
  auto operator<=>(const PolicyVersion&) const = default;
};

// For messages: "version 7", or "version 7 of policy 2".
inline std::string NameOf(const PolicyVersion& which) {
  std::string name = "version " + std::to_string(which.version);
  if (which.policy == PolicyId::kMain) return name;
  return name + " of policy " + std::to_string(static_cast<uint32_t>(which.policy));
}

}  // namespace tidemill
