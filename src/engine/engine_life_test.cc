// Conversations of several tenants over a cache that is far too small, with weights that change,
// sequences that are given up, go on or are pinned: every draw is that of a sequence computed at
// once.
#include "testing/ledger_run.h"

namespace tidemill {
namespace {

class RandomLife {
 public:
  RandomLife(uint64_t seed, CacheOnSwap cache, int32_t steps_at_once)
      : random_(seed),
        cache_(cache),
        run_({.pages = 30,
              .max_context = 200,
              .max_running = 6,
              .prefill_chunk = 24,
              .versions = 3,
              .steps_at_once = steps_at_once}) {}

  void Live() {
    for (int round = 0; round < 1500; ++round) {
      const uint64_t what = random_.Below(20);
      if (what < 6 && alive_.size() < 12) {
        ASSERT_NO_FATAL_FAILURE(AddOne());
      } else if (what == 6) {
        run_.Swap(++version_, cache_);
      } else if (what == 7 && !alive_.empty()) {
        auto it = alive_.begin();
        std::advance(it, static_cast<long>(random_.Below(alive_.size())));
        GiveUp(it->first);
      } else {
        ASSERT_NO_FATAL_FAILURE(run_.Step());
        ASSERT_NO_FATAL_FAILURE(LookAtEnded());
      }
    }
    EXPECT_GT(checked_, 50u);
    EXPECT_GT(run_.Stats().cache_hits, 30u);
    EXPECT_GT(run_.Stats().evictions, 0u);
    while (!alive_.empty()) GiveUp(alive_.begin()->first);
    EXPECT_EQ(run_.Stats().pages_used, 0u);
    EXPECT_EQ(run_.Stats().running, 0u);
  }

 private:
  struct Alive {
    uint64_t version;  // the newest when it was added
    bool pinned;
    bool first = true;  // its first turn
    uint64_t session;
  };

  SequenceStart AnyStart(SequenceId id) {
    SequenceStart start{
        .id = id,
        .prompt = LedgerPrompt(1 + random_.Below(90), random_.Below(4)),
        .share_group = random_.Below(3),
        .turn = {.max_new_tokens = 1 + static_cast<int32_t>(random_.Below(30)), .seed = id},
        .tenant = random_.Below(3),
        .session = random_.Below(3),
        .service = random_.Below(2) == 0 ? SequenceClass::kLive : SequenceClass::kTraining,
        .stream = random_.Below(2) == 0};
    start.prompt = Join(start.prompt, LedgerPrompt(random_.Below(20), id));
    if (start.share_group != 0) start.prompt = LedgerPrompt(37, start.share_group);
    const auto room = static_cast<uint64_t>(start.turn.max_new_tokens);
    start.turn.forced = LedgerPrompt(random_.Below(room), id);
    if (random_.Below(5) == 0) {
      start.pin_version = version_ - std::min(version_ - 1, random_.Below(3));
    }
    return start;
  }

  void AddOne() {
    const SequenceId id = next_++;
    SequenceStart start = AnyStart(id);
    run_.tokens[id] = start.prompt;
    run_.seeds[id] = start.turn.seed;
    const Alive one{
        .version = version_, .pinned = start.pin_version.has_value(), .session = start.session};
    const Status added = run_.engine().Add(std::move(start));
    if (added.ok()) {
      alive_[id] = one;
    } else {
      ASSERT_TRUE(one.pinned) << added.ToString();
    }
  }

  void GiveUp(SequenceId id) {
    run_.Release(id);
    run_.turns.erase(id);
    run_.ends.erase(id);
    alive_.erase(id);
  }

  // Where a cache is kept over a swap, only what no swap touched was computed at once.
  bool Exact(const Alive& one, const TurnOutput& turn) const {
    if (cache_ == CacheOnSwap::kRebuild || one.pinned) return true;
    return one.first && one.session == 0 && turn.versions.size() == 1 &&
           turn.versions[0].version == one.version;
  }

  void LookAtEnded() {
    std::vector<SequenceId> ended;
    for (const auto& [id, count] : run_.ends) {
      if (alive_.contains(id) && random_.Below(3) != 0) ended.push_back(id);  // others stay parked
    }
    for (const SequenceId id : ended) {
      Alive& one = alive_.at(id);
      const TurnOutput& turn = run_.turns.at(id);
      ASSERT_TRUE(!one.pinned || turn.versions.size() == 1);
      if (Exact(one, turn)) {
        ASSERT_NO_FATAL_FAILURE(run_.ExpectPlain(id));
        ++checked_;
      }
      std::vector<TokenId> append = LedgerPrompt(random_.Below(10), id + 1000);
      std::vector<TokenId> all = Join(run_.tokens.at(id), turn.ids);
      if (random_.Below(2) == 0 || all.size() > 120) {
        GiveUp(id);
        continue;
      }
      run_.tokens[id] = Join(std::move(all), append);
      run_.turns.erase(id);
      run_.ends.erase(id);
      one.first = false;
      const TurnParams turn_params{.max_new_tokens = 1 + static_cast<int32_t>(random_.Below(12)),
                                   .seed = run_.seeds.at(id)};
      ASSERT_TRUE(run_.engine().Continue(id, std::move(append), turn_params).ok());
    }
  }

  Random random_;
  const CacheOnSwap cache_;
  LedgerRun run_;
  std::map<SequenceId, Alive> alive_;
  SequenceId next_ = 1;
  uint64_t version_ = 1;
  size_t checked_ = 0;
};

TEST(EngineLife, WhateverHappensEveryDrawIsThatOfTheWholeSequence) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    for (const CacheOnSwap cache : {CacheOnSwap::kRebuild, CacheOnSwap::kKeep}) {
      for (const int32_t steps : {1, 2}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", steps at once " + std::to_string(steps) +
                     (cache == CacheOnSwap::kKeep ? ", keep" : ", rebuild"));
        RandomLife life(seed, cache, steps);
        ASSERT_NO_FATAL_FAILURE(life.Live());
      }
    }
  }
}

}  // namespace
}  // namespace tidemill
