#include "reward/grading_order.h"

#include <algorithm>

namespace tidemill {
namespace {

// Of the newest group, in the average.
constexpr double kNewestShare = 0.05;

}  // namespace

void GradingOrder::Add(uint64_t key, const Answer& answer, Time now) {
  if (groups_.size() >= options_.groups_max) ForgetOldest();
  waiting_[key] = {answer.group, now};
  groups_[answer.group].waiting.insert(key);
  waiting_groups_.insert(answer.group);
}

void GradingOrder::ForgetOldest() {
  const auto idle = std::find_if(groups_.begin(), groups_.end(),
                                 [](const auto& group) { return group.second.waiting.empty(); });
  if (idle != groups_.end()) groups_.erase(idle);
}

void GradingOrder::Estimate(const Answer& answer, double passes) {
  Know(answer, passes, /*estimated=*/true);
}

void GradingOrder::Executed(const Answer& answer, bool passed) {
  Know(answer, passed ? 1 : 0, /*estimated=*/false);
}

// A result of execution overrides any estimate.
void GradingOrder::Know(const Answer& answer, double passes, bool estimated) {
  const auto group = groups_.find(answer.group);
  if (group == groups_.end()) return;
  group->second.estimated |= estimated;
  const auto [known, is_new] = group->second.passes.emplace(answer.text, passes);
  if (!is_new && !estimated) known->second = passes;
}

double GradingOrder::Value(uint64_t group) const {
  const auto found = groups_.find(group);
  if (found == groups_.end() || !found->second.estimated) return average_;
  double all_pass = 1, all_fail = 1;
  for (const auto& [text, passes] : found->second.passes) {
    all_pass *= passes;
    all_fail *= 1 - passes;
  }
  return 1 - all_pass - all_fail;
}

std::optional<GradingOrder::Taken> GradingOrder::Take(Time now, bool room) {
  if (waiting_.empty()) return std::nullopt;
  auto next = waiting_.begin();
  const bool overdue = now - next->second.since >= options_.wait_max;
  if (!overdue) {
    if (!room) return std::nullopt;
    double best = -1;
    for (const uint64_t group : waiting_groups_) {
      const auto oldest = waiting_.find(*groups_.at(group).waiting.begin());
      const double value = Value(group);
      if (value < best || (value == best && oldest->first > next->first)) continue;
      best = value, next = oldest;
    }
  }
  const auto [key, waited] = *next;
  Group& group = groups_.at(waited.group);
  if (group.estimated) average_ += kNewestShare * (Value(waited.group) - average_);
  group.waiting.erase(key);
  if (group.waiting.empty()) waiting_groups_.erase(waited.group);
  waiting_.erase(next);
  return Taken{key, overdue};
}

void GradingOrder::Clear() {
  waiting_.clear();
  groups_.clear();
  waiting_groups_.clear();
}

}  // namespace tidemill
