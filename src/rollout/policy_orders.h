// The order of tasks of each policy: every policy goes through all tasks on its own, in the same
// order, whatever the others do meanwhile.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/policy_names.h"
#include "rollout/task_order.h"

namespace tidemill {

class PolicyOrders {
 public:
  // `begin`: where all of them begin.
  explicit PolicyOrders(TaskOrder begin, PolicyNames names = PolicyNames())
      : begin_(std::move(begin)), names_(std::move(names)) {}

  TaskOrder& Of(PolicyId policy) { return orders_.try_emplace(policy, begin_).first->second; }
  // The furthest.
  uint64_t epoch() const {
    uint64_t most = begin_.epoch();
    for (const auto& [policy, order] : orders_) most = std::max(most, order.epoch());
    return most;
  }

  // Of all of them, for Seek. Of a run's only policy, as TaskOrder has it; else "coder=0:3,..".
  std::string Cursor() const {
    if (names_.size() == 1) {
      return orders_.empty() ? begin_.Cursor() : orders_.begin()->second.Cursor();
    }
    std::string cursor;
    for (const auto& [policy, order] : orders_) {
      cursor += (cursor.empty() ? "" : ",") + names_.NameOf(policy) + "=" + order.Cursor();
    }
    return cursor;
  }
  // A policy that the cursor does not name stays where it is. Fails as TaskOrder::Seek.
  Status Seek(const std::string& cursor) {
    if (names_.size() == 1) return Of(PolicyId::kMain).Seek(cursor);
    for (size_t at = 0; at < cursor.size();) {
      const size_t end = std::min(cursor.find(',', at), cursor.size());
      const std::string one = cursor.substr(at, end - at);
      at = end + 1;
      const size_t equals = one.find('=');
      if (equals == std::string::npos) return Invalid("\"" + one + "\" is no cursor of a policy");
      const auto policy = names_.Find(one.substr(0, equals));
      if (!policy.ok()) continue;  // the run has it not any more
      TM_RETURN_IF_ERROR(Of(*policy).Seek(one.substr(equals + 1)));
    }
    return Ok();
  }

 private:
  TaskOrder begin_;
  PolicyNames names_;
  std::map<PolicyId, TaskOrder> orders_;
};

}  // namespace tidemill
