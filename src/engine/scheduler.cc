#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>

namespace tidemill {

Scheduler::Scheduler(const SchedulerOptions& options, std::function<void(PageId, PageId)> copy_page)
    : options_(options),
      copy_page_(std::move(copy_page)),
      pool_(options.pages),
      cache_(pool_, options.cache_seed) {
  // Each class has room for one sequence of the longest context, or there are no shares.
  const size_t least = static_cast<size_t>(options.max_context) / kPageSlots + 2;
  const size_t total = pool_.total();
  if (total < 2 * least) return;
  const auto live =
      static_cast<size_t>(std::llround(options.live_share * static_cast<double>(total)));
  page_share_[Index(SequenceClass::kLive)] = std::clamp(live, least, total - least);
  page_share_[Index(SequenceClass::kTraining)] = total - page_share_[Index(SequenceClass::kLive)];
}

void Scheduler::Enqueue(Sequence& sequence) {
  if (sequence.state == SequenceState::kParked) parked_.erase(sequence.parked_at);
  sequence.BeginWaiting();
  std::deque<Sequence*>& waiting = waiting_[Index(sequence.service)];
  // One that still has its cache goes first: it is cheap to go on with, and holds pages meanwhile.
  if (sequence.cached > 0) {
    waiting.push_front(&sequence);
  } else {
    waiting.push_back(&sequence);
  }
}

void Scheduler::Park(Sequence& sequence) {
  TM_CHECK(sequence.state != SequenceState::kParked, "a parked sequence has no turn to end");
  Leave(sequence);  // waiting: it lost its place while its last token was drawn
  PublishPages(sequence);
  sequence.state = SequenceState::kParked;
  sequence.parked_at = ++uses_;
  parked_.emplace(sequence.parked_at, &sequence);
}

void Scheduler::LeaveRunning(Sequence& sequence) {
  running_.erase(std::find(running_.begin(), running_.end(), &sequence));
  --running_of_[Index(sequence.service)];
}

void Scheduler::Leave(Sequence& sequence) {
  std::deque<Sequence*>& waiting = waiting_[Index(sequence.service)];
  switch (sequence.state) {
    case SequenceState::kWaiting:
      waiting.erase(std::find(waiting.begin(), waiting.end(), &sequence));
      break;
    case SequenceState::kRunning:
      LeaveRunning(sequence);
      break;
    case SequenceState::kParked:
      parked_.erase(sequence.parked_at);
      break;
  }
}

void Scheduler::Forget(Sequence& sequence) {
  Leave(sequence);
  PublishPages(sequence);
  Retain(sequence);
  Evict(sequence);
  PromptGroup* group = GroupOf(sequence);
  if (group != nullptr && --group->members == 0) {
    DropGroupPages(*group);
    groups_.erase(sequence.share_group);
  }
}

std::vector<PlannedRows> Scheduler::Plan() {
  Admit();
  std::vector<PlannedRows> plan;
  plan.reserve(running_.size());
  order_ = running_;  // the oldest first
  PlanDecode(plan);
  PlanPrefill(plan);
  // For one class's sake the other's may have been preempted after it was planned.
  std::erase_if(plan, [](const PlannedRows& planned) {
    return planned.sequence->state != SequenceState::kRunning;
  });
  if (plan.empty() && !running_.empty() && running_.front()->Fills()) {
    // All of them are being filled and hold what the others need: the oldest takes it.
    Sequence& s = *running_.front();
    const int32_t end = s.cached + std::min(options_.prefill_chunk, s.Pending());
    const int32_t rows = Secure(s, end, Preemption::kAnybody) - s.cached;
    TM_CHECK(rows > 0, "the cache has room for one sequence");
    plan.push_back({&s, rows});
  }
  return plan;
}

void Scheduler::PlanDecode(std::vector<PlannedRows>& plan) {
  for (Sequence* s : order_) {
    if (s->state != SequenceState::kRunning || !s->Decodes()) continue;
    if (Secure(*s, s->cached + 1, Preemption::kAnybody) > s->cached) {
      plan.push_back({s, 1});
    } else {
      Preempt(*s);  // the youngest itself is short of a page
    }
  }
}

void Scheduler::PlanPrefill(std::vector<PlannedRows>& plan) {
  std::array<int64_t, 2> wanted{};
  for (const Sequence* s : order_) {
    if (s->state == SequenceState::kRunning && s->Fills()) {
      wanted[Index(s->service)] += s->Pending();
    }
  }
  if (wanted[0] + wanted[1] == 0) return;
  const int64_t chunk = options_.prefill_chunk;
  const int64_t share =
      std::clamp<int64_t>(std::llround(options_.live_share * static_cast<double>(chunk)), 1,
                          std::max<int64_t>(1, chunk - 1));
  const int64_t live = std::max(share, chunk - wanted[Index(SequenceClass::kTraining)]);
  const int32_t filled = FillClass(SequenceClass::kLive, static_cast<int32_t>(live), plan);
  FillClass(SequenceClass::kTraining, static_cast<int32_t>(chunk) - filled, plan);
}

int32_t Scheduler::FillClass(SequenceClass service, int32_t budget,
                             std::vector<PlannedRows>& plan) {
  int32_t filled = 0;
  for (Sequence* s : order_) {
    if (filled == budget) break;
    if (s->service != service || s->state != SequenceState::kRunning || !s->Fills()) continue;
    const int32_t end = s->cached + std::min(budget - filled, s->Pending());
    const int32_t rows = Secure(*s, end, Preemption::kOtherClass) - s->cached;
    if (rows == 0) continue;
    plan.push_back({s, rows});
    filled += rows;
  }
  return filled;
}

void Scheduler::Started(Sequence& sequence, int32_t rows) {
  sequence.cached += rows;
  sequence.computed_before = std::max(sequence.computed_before, sequence.cached);
  PublishPages(sequence);
  PublishPrompt(sequence);
}

void Scheduler::TakeBack(Sequence& sequence) {
  sequence.computed_before = --sequence.cached;
}

void Scheduler::NewWeights(const PolicyVersion& weights, CacheOnSwap cache) {
  for (auto& [id, group] : groups_) {
    if (group.pin || group.policy != weights.policy) continue;
    DropGroupPages(group);
    group.leader = nullptr;
  }
  const bool rebuild = cache == CacheOnSwap::kRebuild;
  if (rebuild) cache_.ForgetSessions(weights.policy);
  const auto follows = [&](const Sequence& s) {
    return !s.pinned && s.weights.policy == weights.policy;
  };
  const auto change = [&](Sequence& s) {
    if (!follows(s)) return;
    if (rebuild) Evict(s);
    s.weights = weights;
    s.clean = s.cached == 0;
  };
  for (const auto& [when, sequence] : parked_) change(*sequence);
  for (const auto& waiting : waiting_) {
    for (Sequence* sequence : waiting) change(*sequence);
  }
  for (Sequence* sequence : running_) change(*sequence);
  if (!rebuild) return;
  // Back to the front of the queue in their order, so that groups share their prompts anew.
  order_ = running_;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    Sequence& s = **it;
    if (!follows(s)) continue;
    LeaveRunning(s);
    s.BeginWaiting();
    waiting_[Index(s.service)].push_front(&s);
  }
}

void Scheduler::Distrust() {
  cache_.Clear();
  const auto mark = [](Sequence& s) {
    s.trusted = false;
    s.published = 0;
  };
  for (const auto& [when, sequence] : parked_) mark(*sequence);
  for (const auto& waiting : waiting_) {
    for (Sequence* sequence : waiting) mark(*sequence);
  }
  for (Sequence* sequence : running_) mark(*sequence);
  for (auto& [id, group] : groups_) DropGroupPages(group);
}

}  // namespace tidemill
