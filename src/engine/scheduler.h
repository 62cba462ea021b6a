// Which rows the next step computes, and whose pages make room for whose.
//
//   Enqueue -> waiting -> (Plan admits) -> running -> Park -> parked -> Enqueue ..
//
// A running sequence gives one row a step (decode) or a part of the step's prefill budget. When
// pages run short, this goes in order: prompts kept for a group that nobody uses; then, the longest
// unused first, pages of the prefix cache and those of parked sequences; waiting ones; then running
// ones are preempted, the youngest first. Whoever lost its pages is computed again when its turn
// comes.
//
// Live sequences and those of training each have a share of places, rows and pages. A class may use
// what the other leaves, and gives it back when that wants it: pages from its youngest sequences;
// places, live ones only, by a pause of training's youngest. The oldest running sequence of each
// class always gets on, so every sequence does in the end.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/prefix_cache.h"
#include "engine/sequence.h"

namespace tidemill {

struct SchedulerOptions {
  int32_t pages = 0;  // room for at least one sequence of the longest context
  int32_t max_context = 0;
  size_t max_running = 1024;
  int32_t prefill_chunk = 512;
  double live_share = 0.5;  // of places, rows and pages for live sequences, where both classes want
  uint64_t cache_seed = 0;
};

struct PlannedRows {
  Sequence* sequence;
  int32_t rows;
};

struct SchedulerCounts {
  uint64_t evictions = 0;
  uint64_t cache_lookups = 0;
  uint64_t cache_hits = 0;
  uint64_t lookup_tokens = 0;
  uint64_t reused_tokens = 0;
};

// Does not own the sequences; each must be forgotten before it is destroyed. Not thread-safe.
class Scheduler {
 public:
  // `copy_page(from, to)` copies what is in a page.
  Scheduler(const SchedulerOptions& options, std::function<void(PageId, PageId)> copy_page);

  // A new sequence: once, with its prompt and nothing else, before its first Enqueue.
  void Introduce(Sequence& sequence);
  void Enqueue(Sequence& sequence);
  void Park(Sequence& sequence);
  void Forget(Sequence& sequence);

  // The rows of the next step, with pages for all of them. None: all there is to do are turns that
  // end with the steps under way.
  std::vector<PlannedRows> Plan();
  // A step was started that computes `rows` rows of `sequence`: those after it find them done.
  void Started(Sequence& sequence, int32_t rows);
  // The last row of `sequence` was one too many: its turn had ended.
  void TakeBack(Sequence& sequence);
  // Weights changed for all sequences of the policy but pinned ones: prompts computed under the old
  // ones are not shared any more, and kRebuild takes the pages.
  void NewWeights(const PolicyVersion& weights, CacheOnSwap cache);
  // Nothing is computed under `weights` any more.
  void ForgetWeights(const PolicyVersion& weights) { cache_.ForgetWeights(weights); }
  // Nothing of the policy will be asked for any more.
  void ForgetPolicy(PolicyId policy) { cache_.ForgetSessions(policy); }
  void ForgetTenant(uint64_t tenant) { cache_.ForgetTenant(tenant); }
  // A step failed: what it and those before it left in pages is not to be shared.
  void Distrust();

  bool Work() const { return running() > 0 || waiting() > 0; }
  size_t running() const { return running_.size(); }
  size_t running(SequenceClass service) const { return running_of_[Index(service)]; }
  size_t waiting() const { return waiting_[0].size() + waiting_[1].size(); }
  size_t waiting(SequenceClass service) const { return waiting_[Index(service)].size(); }
  size_t parked() const { return parked_.size(); }
  const PagePool& pool() const { return pool_; }
  const SchedulerCounts& counts() const { return counts_; }

 private:
  // The prompt of a share group. One member, the leader, computes it; the others wait for that.
  struct PromptGroup {
    std::vector<TokenId> prompt;
    uint64_t tenant = 0;
    PolicyId policy = PolicyId::kMain;
    std::optional<uint64_t> pin;
    std::vector<PageId> pages;         // of all but the prompt's last token; empty: not computed
    const Sequence* leader = nullptr;  // computes it now
    size_t members = 0;                // sequences not forgotten
  };
  // From whom running sequences may be preempted to make room.
  enum class Preemption : uint8_t { kNobody, kOtherClass, kAnybody };

  static size_t Index(SequenceClass service) { return static_cast<size_t>(service); }
  static SequenceClass Other(SequenceClass service) {
    return service == SequenceClass::kLive ? SequenceClass::kTraining : SequenceClass::kLive;
  }

  // scheduler_groups.cc
  PromptGroup* GroupOf(const Sequence& sequence);
  bool WaitsForPrompt(const Sequence& sequence);
  void AttachPrompt(Sequence& sequence);
  void PublishPrompt(Sequence& sequence);
  void DropGroupPages(PromptGroup& group);

  // scheduler_cache.cc
  void AttachCached(Sequence& sequence);
  void PublishPages(Sequence& sequence);
  void Retain(Sequence& sequence);
  void UsePages(Sequence& sequence, std::span<const PageId> pages, int32_t tokens);
  void DropPages(std::vector<PageId>& pages);
  void DropPage(PageId page);

  void Leave(Sequence& sequence);
  void LeaveRunning(Sequence& sequence);

  // scheduler_admission.cc
  void Admit();
  void PauseForLive();
  SequenceClass NextClass(const std::array<size_t, 2>& cursors) const;
  bool AdmitOne(SequenceClass service, size_t& cursor);
  bool FindPages(Sequence& sequence);
  void CountLookup(Sequence& sequence, bool fresh);
  size_t PlacesOf(SequenceClass service) const;

  void PlanDecode(std::vector<PlannedRows>& plan);
  void PlanPrefill(std::vector<PlannedRows>& plan);
  int32_t FillClass(SequenceClass service, int32_t budget, std::vector<PlannedRows>& plan);

  // scheduler_room.cc
  void Evict(Sequence& sequence);
  void Preempt(Sequence& sequence);
  bool MakeRoom(const Sequence& keep, Preemption preemption);
  bool TakeFrom(const Sequence& keep, Preemption preemption);
  Sequence* VictimFor(const Sequence& keep, Preemption preemption);
  Sequence* Youngest(SequenceClass service);
  size_t PagesOf(SequenceClass service) const;
  bool MayTakeFromOther(SequenceClass service) const;
  size_t Reclaimable(SequenceClass service) const;
  // Pages for positions up to `end`, none of them shared where it writes; returns how far it got.
  int32_t Secure(Sequence& sequence, int32_t end, Preemption preemption);

  const SchedulerOptions options_;
  const std::function<void(PageId, PageId)> copy_page_;
  PagePool pool_;
  PrefixCache cache_;
  std::array<size_t, 2> page_share_{};  // by class; 0: the cache is too small for shares
  std::array<std::deque<Sequence*>, 2> waiting_;
  std::vector<Sequence*> running_;  // in order of admission
  std::array<size_t, 2> running_of_{};
  std::vector<Sequence*> order_;          // of running_ when a plan began
  std::map<uint64_t, Sequence*> parked_;  // the longest parked first
  std::unordered_map<uint64_t, PromptGroup> groups_;
  uint64_t uses_ = 0;  // counts up with whatever is used, so that the oldest use is known
  SchedulerCounts counts_;
};

}  // namespace tidemill
