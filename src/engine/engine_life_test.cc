// Conversations of several tenants with several policies over a cache that is far too small, with
// weights that change, policies that come and go, sequences that are given up, go on or are pinned:
// every draw is that of a sequence computed at once.
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
              .adapters = 4,
              .steps_at_once = steps_at_once}) {}

  void Live() {
    for (int round = 0; round < 1500; ++round) {
      const uint64_t what = random_.Below(20);
      if (what < 6 && alive_.size() < 12) {
        ASSERT_NO_FATAL_FAILURE(AddOne());
      } else if (what == 6) {
        PublishOne();
      } else if (what == 8 && random_.Below(4) == 0) {
        DropOne();
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
    EXPECT_GT(of_others_, 10u);
    EXPECT_GT(run_.Stats().cache_hits, 10u);
    EXPECT_GT(run_.Stats().evictions, 0u);
    while (!alive_.empty()) GiveUp(alive_.begin()->first);
    EXPECT_EQ(run_.Stats().pages_used, 0u);
    EXPECT_EQ(run_.Stats().running, 0u);
    EXPECT_EQ(run_.Stats().policies, newest_.size());
  }

  // Policies that there was no room for.
  size_t refused() const { return refused_; }

 private:
  struct Alive {
    PolicyId policy;
    uint64_t version;  // the newest of its policy when it was added
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
    start.policy = AnyPolicy();
    if (random_.Below(5) == 0) {
      const uint64_t newest = newest_.contains(start.policy) ? newest_.at(start.policy) : 1;
      start.pin_version = newest - std::min(newest - 1, random_.Below(3));
    }
    return start;
  }

  PolicyId AnyPolicy() { return PolicyId{static_cast<uint32_t>(random_.Below(4))}; }

  // A version number is never used again, also not after a drop.
  void PublishOne() {
    const PolicyId policy = AnyPolicy();
    const PolicyVersion weights{.policy = policy, .version = versions_[policy] + 1};
    const Status published = run_.Publish(weights, cache_);
    if (newest_.contains(policy)) {
      ASSERT_TRUE(published.ok()) << published.ToString();
    }
    if (!published.ok()) {
      ++refused_;  // there is no room, or sequences of before a drop are left
      return;
    }
    versions_[policy] = newest_[policy] = weights.version;
  }

  void DropOne() {
    const PolicyId policy = AnyPolicy();
    const Status dropped = run_.engine().DropPolicy(policy);
    EXPECT_EQ(dropped.ok(), policy != PolicyId::kMain && newest_.erase(policy) > 0)
        << dropped.ToString();
  }

  void AddOne() {
    const SequenceId id = next_++;
    SequenceStart start = AnyStart(id);
    const bool known = newest_.contains(start.policy);
    const Alive one{.policy = start.policy,
                    .version = versions_[start.policy],
                    .pinned = start.pin_version.has_value(),
                    .session = start.session};
    const Status added = run_.TryAdd(std::move(start));
    if (added.ok()) {
      ASSERT_TRUE(known);
      alive_[id] = one;
    } else {
      ASSERT_TRUE(one.pinned || !known) << added.ToString();
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
        of_others_ += one.policy != PolicyId::kMain ? 1 : 0;
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
  std::map<PolicyId, uint64_t> versions_{{PolicyId::kMain, 1}};  // the last one published
  std::map<PolicyId, uint64_t> newest_{{PolicyId::kMain, 1}};    // of those that are known
  size_t checked_ = 0, of_others_ = 0, refused_ = 0;
};

TEST(EngineLife, WhateverHappensEveryDrawIsThatOfTheWholeSequence) {
  size_t refused = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    for (const CacheOnSwap cache : {CacheOnSwap::kRebuild, CacheOnSwap::kKeep}) {
      for (const int32_t steps : {1, 2}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", steps at once " + std::to_string(steps) +
                     (cache == CacheOnSwap::kKeep ? ", keep" : ", rebuild"));
        RandomLife life(seed, cache, steps);
        ASSERT_NO_FATAL_FAILURE(life.Live());
        refused += life.refused();
      }
    }
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace tidemill
