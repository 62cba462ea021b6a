#include "bench/engine_serving.h"

#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <vector>

#include "bench/served_config.h"
#include "core/random.h"
#include "engine/torch/torch_engine.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

constexpr int kServingThreads = 2;
constexpr size_t kConversations = 16;
constexpr size_t kConversationMax = 6000;  // then another one begins
constexpr double kConversationSeconds = 3.5;

double ProcessSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<TokenId> AnyText(Random& random, size_t length, int64_t vocabulary) {
  std::vector<TokenId> tokens(length);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random.Below(static_cast<uint64_t>(vocabulary)));
  }
  return tokens;
}

Status MeasurePrompt(uint64_t seed, ServingReport& report) {
  constexpr int64_t kVocabulary = 151643;
  TM_ASSIGN_OR_RETURN(const auto weights,
                      PolicyWeights::NewRandom(ServedConfig(kVocabulary), seed));
  TM_ASSIGN_OR_RETURN(const auto engine, NewEngine(weights, 1, {.threads = kServingThreads}));
  Random random(seed);
  report.prompt_tokens = 19000;
  report.threads = kServingThreads;
  SequenceStart start{.id = 1, .prompt = AnyText(random, 19000, kVocabulary)};
  start.turn.max_new_tokens = 1;
  TM_RETURN_IF_ERROR(engine->Add(std::move(start)));
  const auto begin = std::chrono::steady_clock::now();
  const double cpu = ProcessSeconds();
  while (engine->Work()) TM_RETURN_IF_ERROR(engine->Step().status());
  report.prompt_seconds = SecondsSince(begin);
  report.prompt_cpu_seconds = ProcessSeconds() - cpu;
  return Ok();
}

// Conversations that go on turn by turn, each turn a new sequence with all that was said before.
class Conversations {
 public:
  Conversations(Engine& engine, uint64_t seed) : engine_(engine), random_(seed) {
    const std::vector<TokenId> system = AnyText(random_, 1500, kVocabulary);
    for (size_t i = 0; i < kConversations; ++i) said_.push_back(system);
  }

  static constexpr int64_t kVocabulary = 500;

  Status StartAll() {
    for (size_t i = 0; i < kConversations; ++i) TM_RETURN_IF_ERROR(Ask(i));
    return Ok();
  }

  Status Step() {
    TM_RETURN_IF_ERROR(engine_.Step().status());
    for (const TurnDelta& delta : engine_.TakeDeltas()) {
      const size_t who = delta.part.id % kConversations;
      said_[who].insert(said_[who].end(), delta.part.ids.begin(), delta.part.ids.end());
      if (!delta.done) continue;
      TM_RETURN_IF_ERROR(engine_.Release(delta.part.id));
      TM_RETURN_IF_ERROR(Ask(who));
    }
    return Ok();
  }

 private:
  Status Ask(size_t who) {
    std::vector<TokenId>& said = said_[who];
    if (said.size() > kConversationMax) said.resize(1500);
    const std::vector<TokenId> asked = AnyText(random_, 40, kVocabulary);
    said.insert(said.end(), asked.begin(), asked.end());
    SequenceStart start{.id = ++turns_ * kConversations + who, .prompt = said};
    start.turn.max_new_tokens = 60;
    start.turn.seed = turns_;
    start.tenant = 1 + who % 2;
    start.session = 1 + who;
    start.service = SequenceClass::kLive;
    start.stream = true;
    return engine_.Add(std::move(start));
  }

  Engine& engine_;
  Random random_;
  std::vector<std::vector<TokenId>> said_;
  uint64_t turns_ = 0;
};

Result<EngineStats> Converse(uint64_t seed, bool swap) {
  const ModelConfig config = ServedConfig(Conversations::kVocabulary);
  TM_ASSIGN_OR_RETURN(const auto weights, PolicyWeights::NewRandom(config, seed));
  TM_ASSIGN_OR_RETURN(const auto engine, NewEngine(weights, 1, {.threads = kServingThreads}));
  Conversations conversations(*engine, seed);
  TM_RETURN_IF_ERROR(conversations.StartAll());
  const auto begin = std::chrono::steady_clock::now();
  for (double now = 0; now < kConversationSeconds; now = SecondsSince(begin)) {
    const auto due = static_cast<uint64_t>(now);
    if (swap && engine->Stats().swaps < due) {
      TM_RETURN_IF_ERROR(engine->SwapWeights(weights, 2 + due, CacheOnSwap::kKeep));
    }
    TM_RETURN_IF_ERROR(conversations.Step());
  }
  return engine->Stats();
}

double HitRate(const EngineStats& stats) {
  return static_cast<double>(stats.reused_tokens) /
         static_cast<double>(std::max<uint64_t>(1, stats.lookup_tokens));
}

}  // namespace

Result<ServingReport> MeasureServing(uint64_t seed) {
  ServingReport report;
  TM_RETURN_IF_ERROR(MeasurePrompt(seed, report));
  TM_ASSIGN_OR_RETURN(const EngineStats calm, Converse(seed, /*swap=*/false));
  TM_ASSIGN_OR_RETURN(const EngineStats swapping, Converse(seed, /*swap=*/true));
  report.hit_rate = HitRate(calm);
  report.hit_rate_swapping = HitRate(swapping);
  report.swaps = swapping.swaps;
  return report;
}

std::string ServingReport::ToText() const {
  return fmt::format(
      "a prompt of {} tokens on {} threads: {:.2f} s ({:.2f} s of CPU)\n"
      "conversations: {:.1f} % of prompt tokens from the cache; {:.1f} % with {} swaps, one a "
      "second\n",
      prompt_tokens, threads, prompt_seconds, prompt_cpu_seconds, 100 * hit_rate,
      100 * hit_rate_swapping, swaps);
}

}  // namespace tidemill
