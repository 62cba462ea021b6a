// The part of the scheduler that decides who runs.
#include <algorithm>
#include <cmath>

#include "engine/scheduler.h"

namespace tidemill {

size_t Scheduler::PlacesOf(SequenceClass service) const {
  const size_t all = options_.max_running;
  const auto wanted =
      static_cast<size_t>(std::llround(options_.live_share * static_cast<double>(all)));
  const size_t live = std::clamp<size_t>(wanted, 1, std::max<size_t>(1, all - 1));
  return service == SequenceClass::kLive ? live : std::max<size_t>(1, all - live);
}

// Where live sequences wait within their share and training has all places, its youngest step
// aside. They keep their pages.
void Scheduler::PauseForLive() {
  const size_t live = running(SequenceClass::kLive);
  const size_t places = PlacesOf(SequenceClass::kLive);
  if (live >= places) return;
  size_t wanted = std::min(waiting(SequenceClass::kLive), places - live);
  const size_t free = options_.max_running - running_.size();
  wanted -= std::min(wanted, free);
  for (; wanted > 0; --wanted) {
    if (running(SequenceClass::kTraining) <= PlacesOf(SequenceClass::kTraining)) return;
    Sequence& s = *Youngest(SequenceClass::kTraining);
    LeaveRunning(s);
    s.BeginWaiting();
    waiting_[Index(s.service)].push_front(&s);
  }
}

SequenceClass Scheduler::NextClass(const std::array<size_t, 2>& cursors) const {
  const auto left = [&](SequenceClass service) {
    return cursors[Index(service)] < waiting_[Index(service)].size();
  };
  const bool live = left(SequenceClass::kLive) &&
                    (running(SequenceClass::kLive) < PlacesOf(SequenceClass::kLive) ||
                     !left(SequenceClass::kTraining));
  return live ? SequenceClass::kLive : SequenceClass::kTraining;
}

// Room for all of its tokens and one page more.
bool Scheduler::FindPages(Sequence& s) {
  const size_t wanted = (s.tokens.size() + kPageSlots - 1) / kPageSlots + 1;
  const size_t needed = wanted - std::min(wanted, s.pages.size());
  if (running_.empty() || needed <= pool_.free()) return true;
  // Taking pages from others is no use if it would not be enough.
  if (needed > pool_.free() + Reclaimable(s.service)) return false;
  while (needed > pool_.free() && TakeFrom(s, Preemption::kOtherClass)) {
  }
  return needed <= pool_.free();
}

void Scheduler::CountLookup(Sequence& s, bool fresh) {
  if (static_cast<size_t>(s.turned) > s.turn.forced.size()) return;  // in the middle of its turn
  s.output.cached_tokens = static_cast<uint32_t>(s.cached);
  if (s.owner.tenant == 0 || !fresh) return;
  ++counts_.cache_lookups;
  counts_.cache_hits += s.cached > 0 ? 1 : 0;
  counts_.lookup_tokens += s.tokens.size();
  counts_.reused_tokens += static_cast<uint64_t>(s.cached);
}

// The next one of the class from `cursor` on that can run, if there is one; moves the cursor past
// those that cannot.
bool Scheduler::AdmitOne(SequenceClass service, size_t& cursor) {
  std::deque<Sequence*>& waiting = waiting_[Index(service)];
  for (; cursor < waiting.size(); ++cursor) {
    Sequence& s = *waiting[cursor];
    if (WaitsForPrompt(s)) continue;
    const bool fresh = s.cached == 0;
    AttachPrompt(s);
    AttachCached(s);
    if (!FindPages(s)) {
      if (fresh) Evict(s);  // what it found is looked for again when there is room
      cursor = waiting.size();
      return false;
    }
    // Making room may have dropped the very prompt it was to share, never its own pages.
    if (WaitsForPrompt(s)) continue;
    PromptGroup* group = GroupOf(s);
    if (group != nullptr && s.cached < s.prompt_length - 1 && group->pages.empty()) {
      group->leader = &s;
    }
    CountLookup(s, fresh);
    s.EndWaiting();
    waiting.erase(waiting.begin() + static_cast<long>(cursor));
    running_.push_back(&s);
    ++running_of_[Index(service)];
    return true;
  }
  return false;
}

void Scheduler::Admit() {
  if (waiting() == 0) return;
  PauseForLive();
  std::array<size_t, 2> cursors{};
  while (running_.size() < options_.max_running) {
    const SequenceClass first = NextClass(cursors);
    if (!AdmitOne(first, cursors[Index(first)]) &&
        !AdmitOne(Other(first), cursors[Index(Other(first))])) {
      return;
    }
  }
}

}  // namespace tidemill
