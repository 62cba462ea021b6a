#include "bench/gateway_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "bench/http_streams.h"
#include "bench/served_config.h"
#include "core/files.h"
#include "core/mutex.h"
#include "core/random.h"
#include "engine/torch/torch_engine.h"
#include "gateway/gateway.h"
#include "gateway/plain_recorder.h"
#include "model/model_config.h"
#include "model/tokenizer_writer.h"
#include "model/torch/device.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

constexpr Duration kLimit = std::chrono::minutes(5);
constexpr Duration kSwapEvery = std::chrono::milliseconds(100);
constexpr uint64_t kBenchTenant = 77;

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  return values[at];
}

class Waiter final : public Waker {
 public:
  void Wake() override {
    {
      MutexLock lock(mutex_);
      woken_ = true;
    }
    changed_.NotifyOne();
  }
  void Wait() {
    MutexLock lock(mutex_);
    changed_.WaitFor(lock, std::chrono::seconds(1),
                     [this]() TM_REQUIRES(mutex_) { return woken_; });
    woken_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool woken_ TM_GUARDED_BY(mutex_) = false;
};

class GatewayBench {
 public:
  explicit GatewayBench(const GatewayBenchOptions& options)
      : options_(options), random_(options.seed) {}
  ~GatewayBench() {
    gateway_.reset();
    if (!made_.empty()) {
      std::error_code ignored;
      std::filesystem::remove_all(made_, ignored);
    }
  }

  Status Open() {
    TM_ASSIGN_OR_RETURN(weights_, StartWeights());
    EngineOptions engine_options;
    engine_options.threads = options_.threads;
    TM_ASSIGN_OR_RETURN(const std::string device, ResolveDevice(options_.device));
    TM_ASSIGN_OR_RETURN(engine_options.cache_bytes, DefaultCacheBytes(device));
    TM_ASSIGN_OR_RETURN(auto engine, NewEngine(weights_, 1, engine_options));
    context_ = engine->max_context();
    channel_ = NewLocalWeightChannel();
    engine_ =
        std::make_unique<EngineThread>(std::move(engine), *channel_, clock_, EngineThreadOptions{});
    TM_ASSIGN_OR_RETURN(ServedPolicy policy, ReadServedPolicy(Directory()));
    policy_.emplace(std::move(policy));
    policy_->end_ids.clear();  // every answer has its full length
    recorder_ = std::make_unique<PlainRecorder>(*policy_);
    return Ok();
  }

  Result<GatewayBenchReport> Run() {
    GatewayBenchReport report;
    report.options = options_;
    engine_->feed().Attach(waiter_);
    const auto cold = Prompts(options_.requests, options_.prompt);
    const auto longer = Prompts(std::max(4, options_.requests / 4), options_.long_prompt);
    const auto history = Prompts(1, options_.prompt)[0];
    BareFirstTokens(cold, report.cold);
    BareFirstTokens(longer, report.long_cold);
    BareFirstTokens(LaterTurns(history), report.later);
    const auto many = Prompts(options_.streams, options_.prompt);
    report.bare_tokens_per_s = BareThroughput(many);
    engine_->feed().Detach();
    GatewayOptions serve;
    serve.plan.context_tokens = context_;
    TM_ASSIGN_OR_RETURN(gateway_, Gateway::Start(std::move(serve), *policy_, *engine_, *recorder_,
                                                 clock_, metrics_));
    // Other prompts, so that nothing of the bare engine's is in the cache.
    TM_RETURN_IF_ERROR(
        HttpFirstTokens(Prompts(options_.requests, options_.prompt), report.cold, report));
    TM_RETURN_IF_ERROR(
        HttpFirstTokens(Prompts(std::max(4, options_.requests / 4), options_.long_prompt),
                        report.long_cold, report));
    TM_RETURN_IF_ERROR(
        HttpFirstTokens(LaterTurns(Prompts(1, options_.prompt)[0]), report.later, report));
    TM_RETURN_IF_ERROR(HttpThroughput(Prompts(options_.streams, options_.prompt), report));
    TM_RETURN_IF_ERROR(SwapGaps(report));
    report.http_to_bare = report.http_tokens_per_s / report.bare_tokens_per_s;
    return report;
  }

 private:
  using Ids = std::vector<TokenId>;

  const std::string& Directory() const { return options_.model.empty() ? made_ : options_.model; }

  Result<std::shared_ptr<const PolicyWeights>> StartWeights() {
    if (!options_.model.empty()) {
      TM_ASSIGN_OR_RETURN(const std::string device, ResolveDevice(options_.device));
      TM_ASSIGN_OR_RETURN(auto loaded, PolicyWeights::Load(options_.model, {.device = device,
                                                                            .dtype = Dtype::kF32}));
      return WeightsToSample(loaded);
    }
    const ModelConfig config = ServedConfig(259);
    made_ = (std::filesystem::temp_directory_path() /
             ("tidemill-bench-gateway-" + std::to_string(clock_.WallMs())))
                .string();
    TM_RETURN_IF_ERROR(MakeDirectories(made_));
    TM_ASSIGN_OR_RETURN(
        const std::string tokenizer,
        TokenizerJson(ByteTokenizerSpec({"<|endoftext|>", "<|im_start|>", "<|im_end|>"})));
    TM_RETURN_IF_ERROR(WriteFileAtomically(made_ + "/tokenizer.json", tokenizer));
    TM_RETURN_IF_ERROR(WriteModelConfig(config, made_));
    return PolicyWeights::NewRandom(config, options_.seed);
  }

  std::vector<Ids> Prompts(int count, int length) {
    std::vector<Ids> prompts(static_cast<size_t>(count), Ids(static_cast<size_t>(length)));
    for (Ids& prompt : prompts) {
      for (TokenId& id : prompt) id = static_cast<TokenId>(random_.Below(256));
    }
    return prompts;
  }
  // The same history again and again, each with other words at its end.
  std::vector<Ids> LaterTurns(const Ids& history) {
    std::vector<Ids> turns;
    for (const Ids& end : Prompts(options_.requests, 32)) {
      turns.push_back(history);
      turns.back().insert(turns.back().end(), end.begin(), end.end());
    }
    return turns;
  }

  void StartBare(const Ids& prompt, int tokens) {
    SequenceStart start;
    start.id = ++sequence_;
    start.prompt = prompt;
    start.turn.max_new_tokens = tokens;
    start.turn.seed = sequence_;
    start.tenant = kBenchTenant;
    start.service = SequenceClass::kLive;
    start.stream = true;
    engine_->Start(std::move(start));
  }

  void BareFirstTokens(const std::vector<Ids>& prompts, FirstToken& report) {
    std::vector<double> times;
    for (const Ids& prompt : prompts) {
      const Time begin = clock_.Now();
      StartBare(prompt, 2);
      double first = 0;
      for (bool done = false; !done;) {
        waiter_.Wait();
        for (const TurnDelta& delta : engine_->feed().TakeAll()) {
          if (first == 0) first = Milliseconds(clock_.Now() - begin);
          done = delta.done || !delta.status.ok();
        }
      }
      engine_->Release(sequence_);
      times.push_back(first);
    }
    report.bare_p50_ms = Percentile(times, 0.5);
    report.bare_p99_ms = Percentile(times, 0.99);
  }

  double BareThroughput(const std::vector<Ids>& prompts) {
    const Time begin = clock_.Now();
    const SequenceId first = sequence_ + 1;
    for (const Ids& prompt : prompts) StartBare(prompt, options_.tokens);
    size_t tokens = 0;
    for (size_t open = prompts.size(); open > 0;) {
      waiter_.Wait();
      for (const TurnDelta& delta : engine_->feed().TakeAll()) {
        tokens += delta.part.ids.size();
        if (delta.done || !delta.status.ok()) --open;
      }
    }
    const double seconds = Seconds(clock_.Now() - begin);
    for (SequenceId id = first; id <= sequence_; ++id) engine_->Release(id);
    return static_cast<double>(tokens) / seconds;
  }

  std::vector<std::string> Bodies(const std::vector<Ids>& prompts, int tokens) const {
    std::vector<std::string> bodies;
    for (const Ids& prompt : prompts) {
      bodies.push_back(nlohmann::json{
          {"model", "bench"},
          {"prompt", prompt},
          {"max_tokens", tokens},
          {"stream", true}}.dump());
    }
    return bodies;
  }

  Result<std::vector<StreamTimes>> Ask(const std::vector<std::string>& bodies,
                                       GatewayBenchReport& report) {
    TM_ASSIGN_OR_RETURN(auto times, StreamAll(gateway_->port(), "/v1/completions", bodies, kLimit));
    for (const StreamTimes& one : times) report.errors += one.complete ? 0 : 1;
    return times;
  }

  Status HttpFirstTokens(const std::vector<Ids>& prompts, FirstToken& first,
                         GatewayBenchReport& report) {
    std::vector<double> waits;
    for (const std::string& body : Bodies(prompts, 2)) {
      TM_ASSIGN_OR_RETURN(const auto times, Ask({body}, report));
      if (times[0].events.empty()) continue;
      waits.push_back(Milliseconds(times[0].events[0] - times[0].sent));
    }
    first.http_p50_ms = Percentile(waits, 0.5);
    first.http_p99_ms = Percentile(waits, 0.99);
    return Ok();
  }

  Status HttpThroughput(const std::vector<Ids>& prompts, GatewayBenchReport& report) {
    const auto bodies = Bodies(prompts, options_.tokens);
    const Time begin = clock_.Now();
    TM_RETURN_IF_ERROR(Ask(bodies, report).status());
    const double tokens = static_cast<double>(prompts.size()) * options_.tokens;
    report.http_tokens_per_s = tokens / Seconds(clock_.Now() - begin);
    return Ok();
  }

  Result<std::vector<double>> Gaps(GatewayBenchReport& report) {
    std::vector<double> gaps;
    const Time until = clock_.Now() + std::chrono::duration_cast<Duration>(
                                          std::chrono::duration<double>(options_.swap_seconds));
    while (clock_.Now() < until) {
      TM_ASSIGN_OR_RETURN(const auto times, Ask(Bodies(Prompts(4, 64), 400), report));
      for (const StreamTimes& one : times) {
        for (size_t i = 1; i < one.events.size(); ++i) {
          gaps.push_back(Milliseconds(one.events[i] - one.events[i - 1]));
        }
      }
    }
    return gaps;
  }

  Status SwapGaps(GatewayBenchReport& report) {
    TM_ASSIGN_OR_RETURN(const auto quiet, Gaps(report));
    report.gap_p99_ms = Percentile(quiet, 0.99);
    const uint64_t before = engine_->Stats().swaps;
    std::atomic<bool> done{false};
    std::thread publisher([&] {
      for (uint64_t version = 2; !done; ++version) {
        (void)channel_->Publish({version, version, weights_});
        std::this_thread::sleep_for(kSwapEvery);
      }
    });
    const auto swapped = Gaps(report);
    done = true;
    publisher.join();
    TM_RETURN_IF_ERROR(swapped.status());
    report.swap_gap_p99_ms = Percentile(*swapped, 0.99);
    report.swaps = engine_->Stats().swaps - before;
    return Ok();
  }

  const GatewayBenchOptions options_;
  Random random_;
  RealClock clock_;
  Metrics metrics_;
  Waiter waiter_;
  std::string made_;  // the directory of random weights
  int32_t context_ = 0;
  SequenceId sequence_ = 0;
  std::shared_ptr<const PolicyWeights> weights_;  // shared: published again and again
  std::unique_ptr<WeightChannel> channel_;
  std::unique_ptr<EngineThread> engine_;
  std::optional<ServedPolicy> policy_;
  std::unique_ptr<PlainRecorder> recorder_;
  std::unique_ptr<Gateway> gateway_;
};

std::string FirstTokenText(const char* what, const FirstToken& f) {
  return fmt::format("  {:<26} {:8.2f} {:8.2f} {:8.2f} {:8.2f} {:8.2f}\n", what, f.bare_p50_ms,
                     f.http_p50_ms, f.bare_p99_ms, f.http_p99_ms, f.http_p99_ms - f.bare_p99_ms);
}

nlohmann::ordered_json FirstTokenJson(const FirstToken& f) {
  return {{"bare_p50_ms", f.bare_p50_ms},
          {"http_p50_ms", f.http_p50_ms},
          {"bare_p99_ms", f.bare_p99_ms},
          {"http_p99_ms", f.http_p99_ms},
          {"added_p99_ms", f.http_p99_ms - f.bare_p99_ms}};
}

}  // namespace

std::string GatewayBenchReport::ToText() const {
  std::string text = "first token, ms              bare p50 http p50 bare p99 http p99    added\n";
  text += FirstTokenText(fmt::format("prompt of {}", options.prompt).c_str(), cold);
  text += FirstTokenText(fmt::format("prompt of {}", options.long_prompt).c_str(), long_cold);
  text += FirstTokenText("later turn of a session", later);
  text += fmt::format(
      "tokens a second, {} streams: bare {:.0f}, through HTTP {:.0f}, ratio {:.3f}\n"
      "gap between events, p99: {:.2f} ms; while weights are swapped ({} swaps): {:.2f} ms\n"
      "broken streams: {}",
      options.streams, bare_tokens_per_s, http_tokens_per_s, http_to_bare, gap_p99_ms, swaps,
      swap_gap_p99_ms, errors);
  return text;
}

std::string GatewayBenchReport::ToJson() const {
  return nlohmann::ordered_json{{"streams", options.streams},
                                {"prompt", options.prompt},
                                {"long_prompt", options.long_prompt},
                                {"first_token", FirstTokenJson(cold)},
                                {"first_token_long", FirstTokenJson(long_cold)},
                                {"first_token_later_turn", FirstTokenJson(later)},
                                {"bare_tokens_per_s", bare_tokens_per_s},
                                {"http_tokens_per_s", http_tokens_per_s},
                                {"http_to_bare", http_to_bare},
                                {"gap_p99_ms", gap_p99_ms},
                                {"swap_gap_p99_ms", swap_gap_p99_ms},
                                {"swaps", swaps},
                                {"broken_streams", errors}}
      .dump();
}

Result<GatewayBenchReport> RunGatewayBench(const GatewayBenchOptions& options) {
  GatewayBench bench(options);
  TM_RETURN_IF_ERROR(bench.Open());
  return bench.Run();
}

}  // namespace tidemill
