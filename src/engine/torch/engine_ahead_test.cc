// Steps that are started before the tokens they go on from are known, against one at a time.
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "core/random.h"
#include "engine/constraint/constraint.h"
#include "engine/torch/torch_engine.h"
#include "model/torch/model.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

constexpr SequenceId kSequences = 150;
constexpr int kTurns = 3;

// Every token is a letter; texts are "ab" and "cde", over and over.
std::shared_ptr<const Constraint> Letters(int64_t vocabulary) {
  static const std::shared_ptr<const Constraint> letters = [&] {
    static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
    std::vector<std::pair<std::string_view, TokenId>> texts;
    for (TokenId id = 0; id < vocabulary; ++id) {
      texts.emplace_back(kLetters.substr(static_cast<size_t>(id) % kLetters.size(), 1), id);
    }
    ConstraintCompiler compiler(std::make_shared<const TokenVocabulary>(
        std::move(texts), std::vector<TokenId>(), static_cast<int32_t>(vocabulary)));
    auto made = compiler.Compile({.kind = ConstraintPart::Kind::kRegex, .text = "(ab|cde)*"});
    TM_CHECK(made.ok(), made.status().message());
    return *made;
  }();
  return letters;
}

TurnParams TurnOf(SequenceId id, int number, int64_t vocabulary) {
  Random random(id * 100 + static_cast<uint64_t>(number));
  TurnParams turn{.max_new_tokens = 1 + static_cast<int32_t>(random.Below(25)),
                  .seed = id * 7 + static_cast<uint64_t>(number)};
  for (TokenId token = 0; token < vocabulary; token += 11) turn.stop_ids.push_back(token);
  // What depends on the tokens before it can begin no step before they are known.
  if (id % 3 == 0) turn.controls.constraint = Letters(vocabulary);
  if (id % 4 == 0) turn.controls.frequency_penalty = 2;
  turn.controls.record_support = id % 2 == 0;
  return turn;
}

// Turns that end at tokens nobody can foresee or at a length everybody can, go on with more or with
// nothing, share prompts, or are given up while they run, over a cache that is far too small.
class RandomWork {
 public:
  RandomWork(Engine& engine, int64_t vocabulary) : engine_(engine), vocabulary_(vocabulary) {}

  void Do() {
    for (SequenceId id = 1; id <= kSequences; ++id) {
      Random random(id / 2);  // two have the same prompt
      std::vector<TokenId> prompt(5 + random.Below(30));
      for (TokenId& token : prompt) token = AnyToken(random);
      ASSERT_TRUE(engine_
                      .Add({.id = id,
                            .prompt = prompt,
                            .share_group = id / 2 + 1,
                            .turn = TurnOf(id, 1, vocabulary_)})
                      .ok());
      if (id % 5 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(Step());
    }
    for (int steps = 0; engine_.Work(); ++steps) {
      ASSERT_LT(steps, 20000) << "the engine does not get on";
      ASSERT_NO_FATAL_FAILURE(Step());
    }
  }

  const std::map<std::pair<SequenceId, int>, TurnOutput>& turns() const { return turns_; }

 private:
  TokenId AnyToken(Random& random) const {
    return static_cast<TokenId>(random.Below(static_cast<uint64_t>(vocabulary_)));
  }

  void Step() {
    auto finished = engine_.Step();
    ASSERT_TRUE(finished.ok()) << finished.status().ToString();
    for (TurnOutput& turn : *finished) {
      const SequenceId id = turn.id;
      if (id > kSequences) {
        ASSERT_TRUE(engine_.Release(id).ok());
        continue;
      }
      const int number = ++done_[id];
      turns_[{id, number}] = std::move(turn);
      if (number == kTurns) {
        ASSERT_TRUE(engine_.Release(id).ok());
        continue;
      }
      Random random(id);
      std::vector<TokenId> append(id % 3);
      for (TokenId& token : append) token = AnyToken(random);
      ASSERT_TRUE(engine_.Continue(id, append, TurnOf(id, number + 1, vocabulary_)).ok());
    }
    if (done_.size() < kSequences) GiveSomebodyUp();
  }

  // One more that is let go of a few steps later, in whatever state it is then.
  void GiveSomebodyUp() {
    const SequenceId extra = kSequences + ++extras_;
    Random random(extra);
    std::vector<TokenId> prompt(1 + random.Below(20), 5);
    ASSERT_TRUE(
        engine_.Add({.id = extra, .prompt = prompt, .turn = {.max_new_tokens = 40, .seed = extra}})
            .ok());
    if (extras_ > 4) (void)engine_.Release(extra - 4);  // gone already where its turn ended
  }

  Engine& engine_;
  const int64_t vocabulary_;
  uint64_t extras_ = 0;
  std::map<SequenceId, int> done_;
  std::map<std::pair<SequenceId, int>, TurnOutput> turns_;
};

TEST(EngineAhead, TokensAreThoseOfOneStepAtATime) {
  ModelConfig config = TinyConfig();
  const auto weights = PolicyWeights::NewRandom(config, 3);
  ASSERT_TRUE(weights.ok());
  std::vector<std::map<std::pair<SequenceId, int>, TurnOutput>> turns;
  for (const int32_t steps : {1, 2}) {
    auto engine = NewEngine(*weights, 1,
                            {.max_context = 128,
                             .max_running = 24,
                             .prefill_chunk = 16,
                             .cache_bytes = uint64_t{30} * 6144,  // 30 pages
                             .steps_at_once = steps});
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    RandomWork work(**engine, config.vocab_size);
    ASSERT_NO_FATAL_FAILURE(work.Do());
    EXPECT_GT((*engine)->Stats().evictions, 50u);
    EXPECT_EQ((*engine)->Stats().pages_used, 0u);
    turns.push_back(work.turns());
  }
  ASSERT_EQ(turns[0].size(), kSequences * kTurns);
  ASSERT_EQ(turns[1].size(), kSequences * kTurns);
  int stopped = 0;
  for (const auto& [key, turn] : turns[0]) {
    const TurnOutput& ahead = turns[1].at(key);
    ASSERT_EQ(turn.ids, ahead.ids) << "sequence " << key.first << " turn " << key.second;
    ASSERT_EQ(turn.logprobs, ahead.logprobs);
    ASSERT_EQ(turn.supports.set_of, ahead.supports.set_of);
    if (key.first % 3 == 0) {
      std::string text;
      for (const TokenId token : turn.ids) text.push_back(static_cast<char>('a' + token % 26));
      EXPECT_TRUE(std::regex_match(text, std::regex("(ab|cde)*(a|cd?)?"))) << text;
      EXPECT_EQ(turn.supports.set_of.size(), key.first % 2 == 0 ? turn.ids.size() : 0u);
    }
    ASSERT_EQ(turn.finish, ahead.finish);
    stopped += turn.finish == TurnFinish::kStop ? 1 : 0;
  }
  EXPECT_GT(stopped, 100) << "turns end where nobody could foresee it";
}

}  // namespace
}  // namespace tidemill
