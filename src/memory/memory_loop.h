// The memory loop: groups pass through it on their way to rollout and get the cases their members
// are shown; episodes with a verdict come back and become cases.
//
//   memory.groups --> [key of the prompt] --> cases of each member --> rollout.groups
//   memory.cases  --> [key of the prompt] --> store (durable, numbered) --> bank
//
// A case is in the bank only after it is in the database, its key with it. A process that ends in
// between finds in the database what it still has to learn.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "memory/case_shelf.h"
#include "memory/prompt_keys.h"
#include "store/run_db.h"
#include "store/store_port.h"
#include "tasks/task_book.h"

namespace tidemill {

struct MemoryOptions : MemoryConfig {
  CaseShelf* shelf = nullptr;  // where the bank is, for others to look; null: the loop's own
  Duration lease_period = std::chrono::seconds(10);
  MessageLimits limits;
};

// Read from any thread.
struct MemoryCounters : CounterSet {
  Counter cases{*this,
                {.key = "memory_cases",
                 .metric = "tidemill_memory_cases",
                 .help = "Cases in memory",
                 .kind = Counter::Kind::kLevel}};
  Counter learned{*this,
                  {.key = "memory_learned",
                   .metric = "tidemill_memory_learned_total",
                   .help = "Episodes that memory learned from"}};
  Counter merged{*this,
                 {.key = "memory_merged",
                  .metric = "tidemill_memory_merged_total",
                  .help = "Episodes merged into a case that was there"}};
  Counter forgotten{*this,
                    {.key = "memory_forgotten",
                     .metric = "tidemill_memory_forgotten_total",
                     .help = "Cases forgotten over the bound"}};
  Counter shown{*this,
                {.key = "memory_shown",
                 .metric = "tidemill_memory_shown_total",
                 .help = "Cases offered to episodes"}};
  Counter unread{*this,
                 {.key = "memory_keys_failed",
                  .metric = "tidemill_memory_keys_failed_total",
                  .help = "Prompts whose key could not be computed"}};
};

class MemoryLoop final : public Loop {
 public:
  // `keys`: reads prompts; null: there are no keys. What is given by reference must outlive it.
  MemoryLoop(Bus& bus, StorePort& store, const TaskBook& tasks, MemoryOptions options,
             const CasesState& earlier, KeyPort* keys = nullptr);

  std::string_view name() const override { return "memory"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // Cases that replay sent are still learned.
  bool Drained() const override {
    return took_all_ && owed_.empty() && unread_.empty() && learning_.empty() &&
           outbox_.waiting() == 0;
  }

  const MemoryCounters& counters() const { return counters_; }
  // SHA-256 of the bank.
  std::string Digest() const;
  CaseShelf& shelf() { return shelf_; }

 private:
  void TakeCases(Time now);
  void TakeStored();
  void TakeGroups(Time now);
  void TakeKeys();
  void Pass(v1::GroupLease group, Lease lease, const std::vector<float>& key);
  void AddContexts(v1::GroupLease& group, const std::vector<float>& key);
  void Learn(uint64_t number, const v1::CaseRecord& record);
  // On its way to the database, as soon as it has its key.
  void Keep(uint64_t tag, v1::CaseRecord record);
  void Submit(uint64_t tag, v1::CaseRecord record);

  Bus& bus_;
  StorePort& store_;
  MemoryOptions options_;
  Outbox outbox_;
  LeaseKeeper leases_;                    // by tag
  std::unique_ptr<CaseShelf> own_shelf_;  // null: it is another's
  CaseShelf& shelf_;
  KeyPort* const key_port_;         // null: there are no keys
  std::optional<PromptKeys> keys_;  // where there are
  // By tag, while their keys are computed.
  std::map<uint64_t, v1::GroupLease> waiting_groups_;
  std::map<uint64_t, v1::CaseRecord> unread_;
  std::map<uint64_t, v1::CaseRecord> learning_;  // by tag, on their way to the database
  std::deque<v1::CaseRecord> owed_;              // by an earlier process
  uint64_t next_tag_ = 1;
  bool took_all_ = false;  // nothing was left on the topic when it was looked at last
  MemoryCounters counters_;
};

}  // namespace tidemill
