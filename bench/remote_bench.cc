#include "bench/remote_bench.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/mutex.h"
#include "engine/remote/remote_engine.h"
#include "testing/ledger_backend.h"
#include "testing/number_weights.h"
#include "testing/scripted_host.h"

namespace tidemill {
namespace {

constexpr double kMicrosecondsMost = 15;
constexpr size_t kPromptTokens = 64;
constexpr size_t kServers = 2;

// Wakes who waits for the feed.
class FeedBell final : public Waker {
 public:
  void Wake() override {
    {
      MutexLock lock(mutex_);
      rung_ = true;
    }
    changed_.NotifyAll();
  }
  void Await() {
    MutexLock lock(mutex_);
    changed_.WaitFor(lock, milliseconds(100), [this]() TM_REQUIRES(mutex_) { return rung_; });
    rung_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool rung_ TM_GUARDED_BY(mutex_) = false;
};

std::vector<TokenId> PromptOf(uint64_t turn) {
  std::vector<TokenId> prompt;
  for (uint64_t i = 0; i < kPromptTokens; ++i) {
    prompt.push_back(static_cast<TokenId>(LedgerMix(turn, i) % kLedgerVocabulary));
  }
  return prompt;
}

Result<VersionPointer> OnlyVersion(const PublishedWeights& weights) {
  WeightFiles files{.version = weights.version,
                    .folder = "/weights-1",
                    .file = "/weights-1.safetensors",
                    .bytes = 1,
                    .checksum = "00"};
  return VersionPointer(std::make_shared<PreparedVersion>(
      std::move(files), ScriptedInference::CanaryOf(PromptOf(0), weights.version), nullptr));
}

}  // namespace

Result<RemoteBenchReport> RunRemoteBench(const RemoteBenchOptions& options) {
  std::vector<std::unique_ptr<ScriptedHost>> hosts;
  RemoteEngine::Servers servers;
  servers.dialect = NewVllmDialect();
  for (size_t i = 0; i < kServers; ++i) {
    hosts.push_back(std::make_unique<ScriptedHost>(
        ScriptedInference::Options{.vocabulary = kLedgerVocabulary}));
    servers.urls.push_back(hosts.back()->url());
  }
  RemoteOptions remote;
  remote.vocabulary = kLedgerVocabulary;
  remote.salt_key = "a secret of the benchmark";
  const RealClock clock;
  const auto channel = NewLocalWeightChannel();
  TM_ASSIGN_OR_RETURN(const auto engine,
                      RemoteEngine::Start(std::move(servers), remote, NumberVersion(1), OnlyVersion,
                                          *channel, clock));
  FeedBell bell;
  engine->feed().Attach(bell);
  uint32_t started = 0, ended = 0;
  const auto start = [&] {
    engine->Start({.id = ++started,
                   .prompt = PromptOf(started),
                   .turn = {.max_new_tokens = options.tokens, .seed = started},
                   .stream = true});
  };
  const Duration before = engine->cpu();
  while (started < std::min(options.in_flight, options.turns)) start();
  RemoteBenchReport report;
  report.in_flight = options.in_flight;
  report.us_per_token_bound = kMicrosecondsMost;
  while (ended < options.turns) {
    bell.Await();
    for (const TurnDelta& delta : engine->feed().TakeAll()) {
      if (!delta.status.ok()) {
        engine->feed().Detach();
        return delta.status;
      }
      report.tokens += delta.part.ids.size();
      if (!delta.done) continue;
      ++ended;
      engine->Release(delta.part.id);
      if (started < options.turns) start();
    }
  }
  engine->feed().Detach();
  const double used = Seconds(engine->cpu() - before);
  report.us_per_token = 1e6 * used / static_cast<double>(report.tokens);
  report.cores_at_20000 = report.us_per_token * 20'000 / 1e6;
  return report;
}

std::string RemoteBenchReport::ToText() const {
  return fmt::format(
      "{} tokens of {} streamed turns in flight: {:.2f} us of CPU a token (at most {:.0f}), {:.2f} "
      "of a core at 20,000 tokens a second",
      tokens, in_flight, us_per_token, us_per_token_bound, cores_at_20000);
}

std::string RemoteBenchReport::ToJson() const {
  return nlohmann::json{
      {"in_flight", in_flight},           {"tokens", tokens},
      {"us_per_token", us_per_token},     {"us_per_token_bound", us_per_token_bound},
      {"cores_at_20000", cores_at_20000}, {"holds", Holds()}}
      .dump();
}

}  // namespace tidemill
