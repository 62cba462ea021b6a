// The memory loop: groups pass through it on their way to rollout and get the cases their members
// are shown; episodes with a verdict come back and become cases.
//
//   memory.groups --> cases of each member --> rollout.groups
//   memory.cases  --> store (durable, numbered) --> bank
//
// A case is in the bank only after it is in the database. A process that ends in between finds in
// the database what it still has to learn.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "bus/bus.h"
#include "bus/lease_keeper.h"
#include "bus/outbox.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/message_check.h"
#include "memory/case_bank.h"
#include "store/run_db.h"
#include "store/store_port.h"
#include "tasks/task_book.h"

namespace tidemill {

struct MemoryOptions {
  Retrieval how = Retrieval::kLearned;
  size_t cases = 8;            // of a prompt
  uint32_t case_tokens = 512;  // of a prompt, at most
  BankOptions bank;
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
};

class MemoryLoop final : public Loop {
 public:
  MemoryLoop(Bus& bus, StorePort& store, const TaskBook& tasks, MemoryOptions options,
             const CasesState& earlier);

  std::string_view name() const override { return "memory"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  // What replay told is still learned.
  bool Drained() const override {
    return took_all_ && owed_.empty() && learning_.empty() && outbox_.waiting() == 0;
  }

  const MemoryCounters& counters() const { return counters_; }
  // For the thread that steps it.
  const CaseBank& bank() const { return bank_; }

 private:
  void TakeCases(Time now);
  void TakeStored();
  void TakeGroups();
  void AddContexts(v1::GroupLease& group);
  void Learn(uint64_t number, const v1::CaseRecord& record);
  void Submit(uint64_t tag, v1::CaseRecord record);

  Bus& bus_;
  StorePort& store_;
  MemoryOptions options_;
  Outbox outbox_;
  LeaseKeeper leases_;  // by tag
  CaseBank bank_;
  std::map<uint64_t, v1::CaseRecord> learning_;  // by tag, on their way to the database
  std::deque<v1::CaseRecord> owed_;              // by an earlier process
  uint64_t next_tag_ = 1;
  bool took_all_ = false;  // nothing was left on the topic when it was looked at last
  MemoryCounters counters_;
};

}  // namespace tidemill
