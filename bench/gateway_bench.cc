#include "bench/gateway_bench.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "core/mutex.h"

namespace tidemill {
namespace {

constexpr Duration kSwapEvery = std::chrono::milliseconds(100);
constexpr int kLaterTokens = 32;
constexpr int kWarmUp = 4;
constexpr int kGapStreams = 16;
constexpr int kGapTokens = 200;
constexpr int kRounds = 2;  // of the tokens a second; the better counts

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

using Questions = std::vector<BenchQuestion>;

class GatewayBench {
 public:
  explicit GatewayBench(const GatewayBenchOptions& options)
      : options_(options), served_(options.served) {}

  Result<GatewayBenchReport> Run() {
    TM_RETURN_IF_ERROR(served_.Open());
    report_.options = options_;
    report_.on_gpu = served_.on_gpu();
    TM_RETURN_IF_ERROR(RunBare());
    TM_RETURN_IF_ERROR(served_.StartGateway());
    TM_RETURN_IF_ERROR(RunHttp());
    TM_RETURN_IF_ERROR(SwapGaps());
    return std::move(report_);
  }

 private:
  // What is asked of both. The texts are other ones each time, so nothing is in the cache but what
  // should be.
  struct Asked {
    Questions cold, longer, later, many;
  };

  Result<Asked> MakeQuestions() {
    Asked asked;
    const int longer = std::clamp(options_.requests / 4, 4, 24);  // they take long
    TM_ASSIGN_OR_RETURN(asked.cold,
                        served_.Ask(kWarmUp + options_.requests, {.prompt = options_.prompt}));
    TM_ASSIGN_OR_RETURN(asked.longer,
                        served_.Ask(kWarmUp + longer, {.prompt = options_.long_prompt}));
    TM_ASSIGN_OR_RETURN(asked.later, served_.Ask(kWarmUp + options_.requests,
                                                 {.prompt = kLaterTokens,
                                                  .history = served_.Text(options_.prompt)}));
    TM_ASSIGN_OR_RETURN(
        asked.many,
        served_.Ask(kRounds * options_.streams,
                    {.prompt = options_.prompt, .tokens = options_.tokens, .every_token = false}));
    return asked;
  }

  Status RunBare() {
    TM_ASSIGN_OR_RETURN(const Asked asked, MakeQuestions());
    served_.engine().feed().Attach(waiter_);
    BareFirstTokens(asked.cold, report_.cold);
    BareFirstTokens(asked.longer, report_.long_cold);
    BareFirstTokens(asked.later, report_.later);
    for (int round = 0; round < kRounds; ++round) {
      report_.bare_tokens_per_s =
          std::max(report_.bare_tokens_per_s, BareThroughput(Round(asked.many, round)));
    }
    served_.engine().feed().Detach();
    return Ok();
  }

  Status RunHttp() {
    TM_ASSIGN_OR_RETURN(const Asked asked, MakeQuestions());
    TM_RETURN_IF_ERROR(HttpFirstTokens(asked.cold, report_.cold));
    TM_RETURN_IF_ERROR(HttpFirstTokens(asked.longer, report_.long_cold));
    TM_RETURN_IF_ERROR(HttpFirstTokens(asked.later, report_.later));
    for (int round = 0; round < kRounds; ++round) {
      TM_ASSIGN_OR_RETURN(const double rate, HttpThroughput(Round(asked.many, round)));
      report_.http_tokens_per_s = std::max(report_.http_tokens_per_s, rate);
    }
    return Ok();
  }

  Questions Round(const Questions& all, int round) const {
    const auto begin = all.begin() + round * options_.streams;
    return {begin, begin + options_.streams};
  }

  void BareFirstTokens(const Questions& questions, FirstToken& report) {
    std::vector<double> waits;
    for (const BenchQuestion& question : questions) {
      const Time begin = served_.clock().Now();
      const SequenceId id = served_.StartBare(question);
      double first = 0;
      for (bool done = false; !done;) {
        waiter_.Wait();
        for (const TurnDelta& delta : served_.engine().feed().TakeAll()) {
          if (first == 0) first = Milliseconds(served_.clock().Now() - begin);
          done = delta.done || !delta.status.ok();
        }
      }
      served_.engine().Release(id);
      waits.push_back(first);
    }
    waits.erase(waits.begin(), waits.begin() + kWarmUp);
    report.bare_p50_ms = PercentileOf(waits, 0.5);
    report.bare_p99_ms = PercentileOf(waits, 0.99);
  }

  double BareThroughput(const Questions& questions) {
    const Time begin = served_.clock().Now();
    std::vector<SequenceId> ids;
    for (const BenchQuestion& question : questions) ids.push_back(served_.StartBare(question));
    size_t tokens = 0;
    for (size_t open = questions.size(); open > 0;) {
      waiter_.Wait();
      for (const TurnDelta& delta : served_.engine().feed().TakeAll()) {
        tokens += delta.part.ids.size();
        if (delta.done || !delta.status.ok()) --open;
      }
    }
    const double seconds = Seconds(served_.clock().Now() - begin);
    for (const SequenceId id : ids) served_.engine().Release(id);
    return static_cast<double>(tokens) / seconds;
  }

  Result<std::vector<StreamTimes>> Stream(const Questions& questions) {
    TM_ASSIGN_OR_RETURN(auto times, served_.Stream(questions, {}));
    for (size_t i = 0; i < times.size(); ++i) {
      const bool whole = times[i].complete && NumberIn(times[i], "completion_tokens") ==
                                                  questions[i].turn.max_new_tokens;
      report_.broken += whole ? 0 : 1;
    }
    return times;
  }

  Status HttpFirstTokens(const Questions& questions, FirstToken& first) {
    std::vector<double> waits;
    for (const BenchQuestion& question : questions) {
      TM_ASSIGN_OR_RETURN(const auto times, Stream({question}));
      if (times[0].events.empty()) continue;  // it counts as broken
      waits.push_back(Milliseconds(times[0].events[0].at - times[0].sent));
    }
    waits.erase(waits.begin(),
                waits.begin() +
                    std::min<std::ptrdiff_t>(kWarmUp, static_cast<std::ptrdiff_t>(waits.size())));
    first.http_p50_ms = PercentileOf(waits, 0.5);
    first.http_p99_ms = PercentileOf(waits, 0.99);
    return Ok();
  }

  Result<double> HttpThroughput(const Questions& questions) {
    TM_ASSIGN_OR_RETURN(const auto times, Stream(questions));
    Time begin = times[0].sent, end{};
    for (const StreamTimes& one : times) {
      begin = std::min(begin, one.sent);
      if (!one.events.empty()) end = std::max(end, one.events.back().at);
    }
    const double tokens = static_cast<double>(questions.size()) * options_.tokens;
    return tokens / Seconds(end - begin);
  }

  Result<std::vector<StreamTimes>> StreamFor(double seconds) {
    std::vector<StreamTimes> all;
    const Time until = served_.clock().Now() +
                       std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    do {
      TM_ASSIGN_OR_RETURN(
          const Questions questions,
          served_.Ask(kGapStreams, {.prompt = 64, .tokens = kGapTokens, .token_ids = true}));
      TM_ASSIGN_OR_RETURN(auto times, Stream(questions));
      std::move(times.begin(), times.end(), std::back_inserter(all));
    } while (served_.clock().Now() < until);
    return all;
  }

  Status SwapGaps() {
    TM_ASSIGN_OR_RETURN(const auto quiet, StreamFor(options_.swap_seconds));
    const uint64_t before = served_.engine().Stats().swaps;
    std::atomic<bool> done{false};
    std::thread publisher([&] {
      while (!done) {
        served_.Publish();
        std::this_thread::sleep_for(kSwapEvery);
      }
    });
    const auto swapped = StreamFor(options_.swap_seconds);
    done = true;
    publisher.join();
    TM_RETURN_IF_ERROR(swapped.status());
    report_.gaps = GapsOf(quiet, *swapped);
    report_.swaps = served_.engine().Stats().swaps - before;
    return Ok();
  }

  const GatewayBenchOptions options_;
  Waiter waiter_;  // before the engine, which wakes it
  GatewayUnderTest served_;
  GatewayBenchReport report_;
};

}  // namespace

StreamGaps GapsOf(const std::vector<StreamTimes>& quiet, const std::vector<StreamTimes>& swapped) {
  std::vector<double> still, at_swaps;
  const auto add = [](const std::vector<StreamTimes>& times, bool swaps, std::vector<double>& to) {
    for (const StreamTimes& one : times) {
      for (size_t i = 1; i < one.events.size(); ++i) {
        const uint64_t version = one.events[i].version, before = one.events[i - 1].version;
        if (version == 0 || before == 0 || (version != before) != swaps) continue;
        to.push_back(Milliseconds(one.events[i].at - one.events[i - 1].at));
      }
    }
  };
  add(quiet, false, still);
  add(swapped, true, at_swaps);
  return {.p99_ms = PercentileOf(still, 0.99),
          .swap_p50_ms = PercentileOf(at_swaps, 0.5),
          .swap_p99_ms = PercentileOf(at_swaps, 0.99),
          .swap_max_ms = PercentileOf(at_swaps, 1),
          .at_swaps = at_swaps.size()};
}

Result<GatewayBenchReport> RunGatewayBench(const GatewayBenchOptions& options) {
  return GatewayBench(options).Run();
}

}  // namespace tidemill
