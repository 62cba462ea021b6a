// Which rows the next step computes, and whose pages make room for whose.
//
//   Enqueue -> waiting -> (Plan admits) -> running -> Park -> parked -> Enqueue ..
//
// A running sequence gives one row a step (decode) or a part of the step's prefill budget. When
// pages run short, this goes in order: prompts kept for a group that nobody uses, parked sequences
// (the longest parked first), waiting ones; then running ones are preempted, the youngest first.
// Whoever lost its pages is computed again when its turn comes. The oldest running sequence always
// gets on, so every sequence does in the end.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/sequence.h"

namespace tidemill {

struct SchedulerOptions {
  int32_t pages = 0;  // room for at least one sequence of the longest context
  size_t max_running = 1024;
  int32_t prefill_chunk = 512;
};

struct PlannedRows {
  Sequence* sequence;
  int32_t rows;
};

// Does not own the sequences; each must be forgotten before it is destroyed. Not thread-safe.
class Scheduler {
 public:
  // `copy_page(from, to)` copies what is in a page.
  Scheduler(const SchedulerOptions& options, std::function<void(PageId, PageId)> copy_page);

  // A new sequence: once, before its first Enqueue.
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
  // Weights changed: prompts computed under the old ones are not shared any more, and kRebuild
  // takes the pages of all sequences.
  void NewWeights(CacheOnSwap cache);

  bool Work() const { return !running_.empty() || !waiting_.empty(); }
  size_t running() const { return running_.size(); }
  size_t waiting() const { return waiting_.size(); }
  size_t parked() const { return parked_.size(); }
  const PagePool& pool() const { return pool_; }
  uint64_t evictions() const { return evictions_; }

 private:
  // The prompt of a share group. One member, the leader, computes it; the others wait for that.
  struct PromptGroup {
    std::vector<TokenId> prompt;
    std::vector<PageId> pages;         // of all but the prompt's last token; empty: not computed
    const Sequence* leader = nullptr;  // computes it now
    size_t members = 0;                // sequences not forgotten
  };

  PromptGroup* GroupOf(const Sequence& sequence);
  bool WaitsForPrompt(const Sequence& sequence);
  void AttachPrompt(Sequence& sequence);
  void PublishPrompt(Sequence& sequence);
  void DropGroupPages(PromptGroup& group);

  void Leave(Sequence& sequence);
  void Admit();
  void Evict(Sequence& sequence);
  void Preempt(Sequence& sequence);
  bool MakeRoom(const Sequence& keep, bool preempt);
  bool TakeFrom(const Sequence& keep, bool preempt);
  size_t Reclaimable() const;
  // Pages for positions up to `end`, none of them shared where it writes; returns how far it got.
  int32_t Secure(Sequence& sequence, int32_t end, bool preempt);

  const SchedulerOptions options_;
  const std::function<void(PageId, PageId)> copy_page_;
  PagePool pool_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;        // in order of admission
  std::map<uint64_t, Sequence*> parked_;  // the longest parked first
  std::unordered_map<uint64_t, PromptGroup> groups_;
  uint64_t parkings_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace tidemill
