#include "tinker/polls.h"

#include <algorithm>
#include <utility>

namespace tidemill {

std::unique_ptr<Poll> Polls::Add(std::unique_ptr<Poll> poll, Time until) {
  MutexLock lock(mutex_);
  if (waiting_.size() >= polls_max_) return poll;
  times_.emplace(until, poll.get());
  std::string promise = poll->promise;
  waiting_.emplace(std::move(promise), Held{until, std::move(poll)});
  return nullptr;
}

std::vector<std::unique_ptr<Poll>> Polls::Take(const std::string& promise) {
  MutexLock lock(mutex_);
  std::vector<std::unique_ptr<Poll>> taken;
  const auto [from, to] = waiting_.equal_range(promise);
  for (auto it = from; it != to; ++it) {
    const auto [first, last] = times_.equal_range(it->second.until);
    times_.erase(std::find_if(
        first, last, [&](const auto& time) { return time.second == it->second.poll.get(); }));
    taken.push_back(std::move(it->second.poll));
  }
  waiting_.erase(from, to);
  return taken;
}

std::vector<std::unique_ptr<Poll>> Polls::TakeDue(Time now) {
  MutexLock lock(mutex_);
  std::vector<std::unique_ptr<Poll>> taken;
  const auto last = times_.upper_bound(now);
  for (auto time = times_.begin(); time != last; ++time) {
    const auto [from, to] = waiting_.equal_range(time->second->promise);
    const auto held = std::find_if(
        from, to, [&](const auto& one) { return one.second.poll.get() == time->second; });
    taken.push_back(std::move(held->second.poll));
    waiting_.erase(held);
  }
  times_.erase(times_.begin(), last);
  return taken;
}

}  // namespace tidemill
