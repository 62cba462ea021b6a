#include "live/live_baseline.h"

#include <algorithm>
#include <cmath>

namespace tidemill {
namespace {

constexpr size_t kClassesMax = 10'000;

}  // namespace

void LiveBaseline::Put(const Class& of, uint64_t session, double reward) {
  // Class names come from clients: a client that makes up a new one every time gets none of them.
  if (!windows_.contains(of) && windows_.size() >= kClassesMax) return;
  std::deque<Entry>& window = windows_[of];
  const auto known = std::find_if(window.begin(), window.end(),
                                  [&](const Entry& entry) { return entry.session == session; });
  if (known != window.end()) {
    known->reward = reward;
    return;
  }
  window.push_back({session, reward});
  if (window.size() > window_) window.pop_front();
}

void LiveBaseline::Forget(const Class& of, uint64_t session) {
  const auto it = windows_.find(of);
  if (it == windows_.end()) return;
  std::erase_if(it->second, [&](const Entry& entry) { return entry.session == session; });
  if (it->second.empty()) windows_.erase(it);
}

LiveBaseline::Comparison LiveBaseline::Without(const Class& of, uint64_t session) const {
  Comparison compared;
  const auto it = windows_.find(of);
  if (it == windows_.end()) return compared;
  double sum = 0, squares = 0;
  for (const Entry& entry : it->second) {
    if (entry.session == session) continue;
    sum += entry.reward, squares += entry.reward * entry.reward;
    ++compared.others;
  }
  if (compared.others == 0) return compared;
  const auto count = static_cast<double>(compared.others);
  compared.mean = sum / count;
  if (compared.others > 1) {
    const double variance = (squares - count * compared.mean * compared.mean) / (count - 1);
    compared.deviation = std::sqrt(std::max(0.0, variance));
  }
  return compared;
}

double LiveBaseline::Variance() const {
  double weighted = 0, sessions = 0;
  for (const auto& [of, window] : windows_) {
    if (window.size() < 2) continue;
    const Comparison all = Without(of, 0);  // numbers of sessions begin with 1
    weighted += all.deviation * all.deviation * static_cast<double>(all.others);
    sessions += static_cast<double>(all.others);
  }
  return sessions > 0 ? weighted / sessions : 0;
}

}  // namespace tidemill
