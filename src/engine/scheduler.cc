#include "engine/scheduler.h"

#include <algorithm>

#include "engine/cpu/cpu_kernels.h"

namespace tidemill {
namespace {

size_t PagesFor(int32_t positions) {
  return static_cast<size_t>((positions + kPageSlots - 1) / kPageSlots);
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, std::function<void(PageId, PageId)> copy_page)
    : options_(options), copy_page_(std::move(copy_page)), pool_(options.pages) {}

void Scheduler::Enqueue(Sequence& sequence) {
  if (sequence.state == SequenceState::kParked) parked_.erase(sequence.parked_at);
  sequence.state = SequenceState::kWaiting;
  // One that still has its cache goes first: it is cheap to go on with, and holds pages meanwhile.
  if (sequence.cached > 0) {
    waiting_.push_front(&sequence);
  } else {
    waiting_.push_back(&sequence);
  }
}

void Scheduler::Park(Sequence& sequence) {
  TM_CHECK(sequence.state != SequenceState::kParked, "a parked sequence has no turn to end");
  Leave(sequence);  // waiting: it lost its place while its last token was drawn
  sequence.state = SequenceState::kParked;
  sequence.parked_at = ++parkings_;
  parked_.emplace(sequence.parked_at, &sequence);
}

void Scheduler::Leave(Sequence& sequence) {
  switch (sequence.state) {
    case SequenceState::kWaiting:
      waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &sequence));
      break;
    case SequenceState::kRunning:
      running_.erase(std::find(running_.begin(), running_.end(), &sequence));
      break;
    case SequenceState::kParked:
      parked_.erase(sequence.parked_at);
      break;
  }
}

void Scheduler::Forget(Sequence& sequence) {
  Leave(sequence);
  Evict(sequence);
  PromptGroup* group = GroupOf(sequence);
  if (group != nullptr && --group->members == 0) {
    DropGroupPages(*group);
    groups_.erase(sequence.share_group);
  }
}

void Scheduler::Evict(Sequence& sequence) {
  for (const PageId page : sequence.pages) pool_.Drop(page);
  sequence.pages.clear();
  sequence.cached = 0;
  PromptGroup* group = GroupOf(sequence);
  if (group != nullptr && group->leader == &sequence) group->leader = nullptr;
}

void Scheduler::Preempt(Sequence& sequence) {
  running_.erase(std::find(running_.begin(), running_.end(), &sequence));
  Evict(sequence);
  ++evictions_;
  sequence.state = SequenceState::kWaiting;
  waiting_.push_front(&sequence);
}

// One thing that gives pages back. False: there is nothing left to take.
bool Scheduler::TakeFrom(const Sequence& keep, bool preempt) {
  const auto unused = [this](const PromptGroup& group) {
    return !group.pages.empty() && !pool_.Shared(group.pages.front());
  };
  for (auto& [id, group] : groups_) {
    if (unused(group)) return DropGroupPages(group), true;
  }
  for (const auto& [when, sequence] : parked_) {
    if (!sequence->pages.empty()) return ++evictions_, Evict(*sequence), true;
  }
  for (auto& [id, group] : groups_) {
    if (!group.pages.empty()) return DropGroupPages(group), true;
  }
  for (auto it = waiting_.rbegin(); it != waiting_.rend(); ++it) {
    if (*it != &keep && !(*it)->pages.empty()) return ++evictions_, Evict(**it), true;
  }
  if (!preempt || running_.empty() || running_.back() == &keep) return false;
  Preempt(*running_.back());
  return true;
}

bool Scheduler::MakeRoom(const Sequence& keep, bool preempt) {
  while (pool_.free() == 0) {
    if (!TakeFrom(keep, preempt)) return false;
  }
  return true;
}

int32_t Scheduler::Secure(Sequence& s, int32_t end, bool preempt) {
  int32_t position = s.cached;
  while (position < end) {
    const size_t index = static_cast<size_t>(position / kPageSlots);
    if (index == s.pages.size()) {
      if (!MakeRoom(s, preempt)) return position;
      s.pages.push_back(pool_.Take());
    } else if (pool_.Shared(s.pages[index])) {
      if (!MakeRoom(s, preempt)) return position;
      // Making room may have taken the page from those it was shared with.
      if (pool_.Shared(s.pages[index])) {
        const PageId own = pool_.Take();
        copy_page_(s.pages[index], own);
        pool_.Drop(s.pages[index]);
        s.pages[index] = own;
      }
    }
    position = std::min(end, static_cast<int32_t>(index + 1) * kPageSlots);
  }
  return end;
}

// At most: pages shared between sequences are counted for each of them.
size_t Scheduler::Reclaimable() const {
  size_t pages = 0;
  for (const auto& [when, sequence] : parked_) pages += sequence->pages.size();
  for (const auto& [id, group] : groups_) pages += group.pages.size();
  return pages;
}

void Scheduler::Admit() {
  for (auto it = waiting_.begin();
       it != waiting_.end() && running_.size() < options_.max_running;) {
    Sequence& s = **it;
    if (WaitsForPrompt(s)) {
      ++it;
      continue;
    }
    AttachPrompt(s);
    const size_t wanted = PagesFor(static_cast<int32_t>(s.tokens.size())) + 1;
    const size_t needed = wanted - std::min(wanted, s.pages.size());
    if (!running_.empty() && needed > pool_.free()) {
      // Taking pages from others is no use if it would not be enough.
      if (needed > pool_.free() + Reclaimable()) break;
      while (needed > pool_.free() && TakeFrom(s, /*preempt=*/false)) {
      }
      if (needed > pool_.free()) break;
    }
    // Making room may have dropped the very prompt it was to share, never its own pages.
    if (WaitsForPrompt(s)) {
      ++it;
      continue;
    }
    PromptGroup* group = GroupOf(s);
    if (group != nullptr && s.cached == 0 && group->pages.empty()) group->leader = &s;
    s.state = SequenceState::kRunning;
    running_.push_back(&s);
    it = waiting_.erase(it);
  }
}

std::vector<PlannedRows> Scheduler::Plan() {
  Admit();
  std::vector<PlannedRows> plan;
  plan.reserve(running_.size());
  // The oldest first: those preempted for it stand behind it, so nothing planned is taken back.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& s = *running_[i];
    if (!s.Decodes()) continue;
    if (Secure(s, s.cached + 1, /*preempt=*/true) > s.cached) {
      plan.push_back({&s, 1});
    } else {
      Preempt(s);  // the youngest itself is short of a page
    }
  }
  int32_t budget = options_.prefill_chunk;
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& s = *running_[i];
    if (!s.Fills()) continue;
    const int32_t end = s.cached + std::min(budget, s.Pending());
    const int32_t rows = Secure(s, end, /*preempt=*/false) - s.cached;
    if (rows == 0) continue;
    plan.push_back({&s, rows});
    budget -= rows;
  }
  if (plan.empty() && !running_.empty() && running_.front()->Fills()) {
    // All of them are being filled and hold what the others need: the oldest takes it.
    Sequence& s = *running_.front();
    const int32_t end = s.cached + std::min(options_.prefill_chunk, s.Pending());
    const int32_t rows = Secure(s, end, /*preempt=*/true) - s.cached;
    TM_CHECK(rows > 0, "the cache has room for one sequence");
    plan.push_back({&s, rows});
  }
  return plan;
}

void Scheduler::Started(Sequence& sequence, int32_t rows) {
  sequence.cached += rows;
  sequence.computed_before = std::max(sequence.computed_before, sequence.cached);
  PublishPrompt(sequence);
}

void Scheduler::TakeBack(Sequence& sequence) {
  sequence.computed_before = --sequence.cached;
}

void Scheduler::NewWeights(CacheOnSwap cache) {
  for (auto& [id, group] : groups_) {
    DropGroupPages(group);
    group.leader = nullptr;
  }
  if (cache == CacheOnSwap::kKeep) return;
  for (const auto& [when, sequence] : parked_) Evict(*sequence);
  for (Sequence* sequence : waiting_) Evict(*sequence);
  // Back to the front of the queue in their order, so that groups share their prompts anew.
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    Evict(**it);
    (*it)->state = SequenceState::kWaiting;
    waiting_.push_front(*it);
  }
  running_.clear();
}

}  // namespace tidemill
