// The part of the scheduler that makes room: who gives pages to whom.
#include <algorithm>

#include "engine/scheduler.h"

namespace tidemill {

void Scheduler::Evict(Sequence& sequence) {
  DropPages(sequence.pages);
  sequence.cached = 0;
  sequence.published = 0;
  sequence.clean = true;
  sequence.trusted = true;
  PromptGroup* group = GroupOf(sequence);
  if (group != nullptr && group->leader == &sequence) group->leader = nullptr;
}

void Scheduler::Preempt(Sequence& sequence) {
  LeaveRunning(sequence);
  Evict(sequence);
  ++counts_.evictions;
  sequence.BeginWaiting();
  waiting_[Index(sequence.service)].push_front(&sequence);
}

Sequence* Scheduler::Youngest(SequenceClass service) {
  const auto found = std::find_if(running_.rbegin(), running_.rend(),
                                  [&](const Sequence* s) { return s->service == service; });
  return found == running_.rend() ? nullptr : *found;
}

// At least: pages shared between sequences are counted for each of them.
size_t Scheduler::PagesOf(SequenceClass service) const {
  size_t pages = 0;
  for (const Sequence* s : running_) {
    if (s->service == service) pages += s->pages.size();
  }
  return pages;
}

// Where one class is below its share the other must be above its own for pages to run short. A
// share has room for one whole context, so what is above it is never the oldest of its class.
bool Scheduler::MayTakeFromOther(SequenceClass service) const {
  const SequenceClass other = Other(service);
  return page_share_[0] > 0 && running_of_[Index(other)] > 1 &&
         PagesOf(service) < page_share_[Index(service)] &&
         PagesOf(other) > page_share_[Index(other)];
}

Sequence* Scheduler::VictimFor(const Sequence& keep, Preemption preemption) {
  if (preemption == Preemption::kNobody || running_.empty()) return nullptr;
  const SequenceClass other = Other(keep.service);
  const bool shared = page_share_[0] > 0 && running_of_[Index(other)] > 0;
  if (shared && MayTakeFromOther(keep.service)) return Youngest(other);
  if (preemption == Preemption::kOtherClass) return nullptr;
  Sequence* youngest = shared ? Youngest(keep.service) : running_.back();
  return youngest == &keep ? nullptr : youngest;
}

// One thing that gives pages back. False: there is nothing left to take.
bool Scheduler::TakeFrom(const Sequence& keep, Preemption preemption) {
  const auto unused = [this](const PromptGroup& group) {
    return !group.pages.empty() && !pool_.Shared(group.pages.front());
  };
  for (auto& [id, group] : groups_) {
    if (unused(group)) return DropGroupPages(group), true;
  }
  const auto parked = std::find_if(parked_.begin(), parked_.end(),
                                   [](const auto& entry) { return !entry.second->pages.empty(); });
  const bool cached = pool_.idle() > 0;
  if (cached && (parked == parked_.end() || cache_.Oldest() < parked->first)) {
    return cache_.EvictOldest(), true;
  }
  if (parked != parked_.end()) return ++counts_.evictions, Evict(*parked->second), true;
  for (auto& [id, group] : groups_) {
    if (!group.pages.empty()) return DropGroupPages(group), true;
  }
  for (std::deque<Sequence*>& waiting : waiting_) {
    for (auto it = waiting.rbegin(); it != waiting.rend(); ++it) {
      if (*it != &keep && !(*it)->pages.empty()) return ++counts_.evictions, Evict(**it), true;
    }
  }
  Sequence* victim = VictimFor(keep, preemption);
  if (victim == nullptr) return false;
  Preempt(*victim);
  return true;
}

bool Scheduler::MakeRoom(const Sequence& keep, Preemption preemption) {
  while (pool_.free() == 0) {
    if (!TakeFrom(keep, preemption)) return false;
  }
  return true;
}

int32_t Scheduler::Secure(Sequence& s, int32_t end, Preemption preemption) {
  int32_t position = s.cached;
  while (position < end) {
    const size_t index = static_cast<size_t>(position / kPageSlots);
    if (index == s.pages.size()) {
      if (!MakeRoom(s, preemption)) return position;
      s.pages.push_back(pool_.Take());
    } else if (pool_.Shared(s.pages[index])) {
      if (!MakeRoom(s, preemption)) return position;
      // Making room may have taken the page from those it was shared with.
      if (pool_.Shared(s.pages[index])) {
        const PageId own = pool_.Take();
        copy_page_(s.pages[index], own);
        DropPage(s.pages[index]);
        s.pages[index] = own;
      }
    }
    position = std::min(end, static_cast<int32_t>(index + 1) * kPageSlots);
  }
  return end;
}

// At most: pages shared between sequences are counted for each of them.
size_t Scheduler::Reclaimable(SequenceClass service) const {
  size_t pages = pool_.idle();
  for (const auto& [when, sequence] : parked_) pages += sequence->pages.size();
  for (const auto& [id, group] : groups_) pages += group.pages.size();
  if (MayTakeFromOther(service)) {
    const SequenceClass other = Other(service);
    pages += std::min(PagesOf(other) - page_share_[Index(other)],
                      page_share_[Index(service)] - PagesOf(service));
  }
  return pages;
}

}  // namespace tidemill
