// For tests: drives an engine over a LedgerBackend and checks its turns.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "engine/batch_engine.h"
#include "testing/ledger_backend.h"

namespace tidemill {

struct LedgerOptions {
  int32_t pages = 64;
  int32_t max_context = 200;
  size_t max_running = 16;
  int32_t prefill_chunk = 32;
  int32_t versions = 1;
  int32_t adapters = 0;
  int32_t steps_at_once = 1;
  double live_share = 0.5;
};

// The weights of each version of a policy are others.
inline uint64_t LedgerNumber(const PolicyVersion& weights) {
  return weights.version + 1000 * static_cast<uint64_t>(weights.policy);
}

inline std::string LedgerBytes(TokenId id) {
  return std::string(static_cast<size_t>(1 + id % 3), static_cast<char>('a' + id % 26));
}

// Finished turns with the tokens before them, checked against PlainDraw.
class LedgerRun {
 public:
  explicit LedgerRun(const LedgerOptions& o) {
    auto backend = std::make_unique<LedgerBackend>(o.pages, o.versions + o.adapters, 1);
    backend_ = backend.get();
    engine_ = NewBatchEngine({.scheduling = {.pages = o.pages,
                                             .max_context = o.max_context,
                                             .max_running = o.max_running,
                                             .prefill_chunk = o.prefill_chunk,
                                             .live_share = o.live_share,
                                             .cache_seed = 7},
                              .vocabulary = kLedgerVocabulary,
                              .version = 1,
                              .versions = o.versions,
                              .adapters = o.adapters,
                              .steps_at_once = o.steps_at_once,
                              .token_bytes = LedgerBytes},
                             std::move(backend));
  }

  Engine& engine() { return *engine_; }
  LedgerBackend& backend() { return *backend_; }
  EngineStats Stats() const { return engine_->Stats(); }

  void Add(SequenceStart start) {
    const Status status = TryAdd(std::move(start));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  Status TryAdd(SequenceStart start) {
    tokens[start.id] = start.prompt;
    seeds[start.id] = start.turn.seed;
    policies[start.id] = start.policy;
    return engine_->Add(std::move(start));
  }
  void Release(SequenceId id) { ASSERT_TRUE(engine_->Release(id).ok()); }
  void Swap(uint64_t version, CacheOnSwap cache) {
    const Status swapped = Publish({.policy = PolicyId::kMain, .version = version}, cache);
    ASSERT_TRUE(swapped.ok()) << swapped.ToString();
  }
  Status Publish(const PolicyVersion& weights, CacheOnSwap cache) {
    return engine_->SwapWeights(std::make_shared<LedgerWeights>(LedgerNumber(weights)), weights,
                                cache);
  }
  void Step() {
    auto finished = engine_->Step();
    ASSERT_TRUE(finished.ok()) << finished.status().ToString();
    for (TurnOutput& turn : *finished) {
      ++ends[turn.id];
      turns[turn.id] = std::move(turn);
    }
    for (TurnDelta& delta : engine_->TakeDeltas()) {
      const SequenceId id = delta.part.id;
      if (delta.done) ++ends[id];
      AppendPart(turns[id], std::move(delta.part));
    }
  }
  void Finish() {
    for (int steps = 0; engine_->Work(); ++steps) {
      ASSERT_LT(steps, 100000) << "the engine does not get on";
      ASSERT_NO_FATAL_FAILURE(Step());
    }
  }
  // All of the turn's draws are those of the weights its tokens name, over all that stands before.
  void ExpectPlain(SequenceId id) {
    const TurnOutput& turn = turns.at(id);
    std::vector<TokenId> all = tokens.at(id);
    ASSERT_EQ(turn.logprobs.size(), turn.ids.size());
    size_t at = 0;
    for (const TokenVersionRun& run : turn.versions) {
      for (uint32_t i = 0; i < run.tokens; ++i, ++at) {
        if (at >= turn.forced) {
          const uint64_t number = LedgerNumber({policies.at(id), run.version});
          const Drawn plain = PlainDraw(all, number, seeds.at(id));
          ASSERT_EQ(turn.ids.at(at), plain.id) << "sequence " << id << " token " << at;
          ASSERT_EQ(turn.logprobs[at], plain.logprob);
        }
        all.push_back(turn.ids[at]);
      }
    }
    ASSERT_EQ(at, turn.ids.size());
  }

  std::map<SequenceId, std::vector<TokenId>> tokens;  // before the turn
  std::map<SequenceId, uint64_t> seeds;
  std::map<SequenceId, PolicyId> policies;
  std::map<SequenceId, TurnOutput> turns;
  std::map<SequenceId, int> ends;  // turns that ended

 private:
  LedgerBackend* backend_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

inline std::vector<TokenId> LedgerPrompt(size_t length, uint64_t seed = 1) {
  Random random(seed);
  std::vector<TokenId> prompt(length);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random.Below(kLedgerVocabulary));
  return prompt;
}

inline std::vector<TokenId> Join(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace tidemill
