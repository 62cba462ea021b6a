// The system that the gateway's benches measure: a model, an engine on its thread, and the gateway
// in front of it, all in this process; and questions that ask both for the same work.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/http_streams.h"
#include "core/clock.h"
#include "core/metrics.h"
#include "core/random.h"
#include "core/status.h"
#include "engine/engine_port.h"
#include "gateway/gateway.h"
#include "gateway/plain_recorder.h"
#include "model/torch/model.h"
#include "weights/weight_channel.h"

namespace tidemill {

struct ServedBenchOptions {
  std::string model;  // a directory; empty: random weights, 2 layers of width 64
  std::string device = "cpu";
  int threads = 1;  // of the engine
  uint64_t seed = 1;
};

// One request, for both ways in.
struct BenchQuestion {
  std::string body;             // of the HTTP request
  std::vector<TokenId> prompt;  // what the gateway makes of it
  TurnParams turn;
};

// The 99th percentile and the like; 0 of nothing.
double PercentileOf(std::vector<double> values, double share);

// Not thread-safe.
class GatewayUnderTest {
 public:
  explicit GatewayUnderTest(const ServedBenchOptions& options)
      : options_(options), random_(options.seed) {}
  ~GatewayUnderTest();

  // kInvalid and the like name the directory or the device.
  Status Open();
  Status StartGateway();

  struct Wish {
    int prompt = 512;  // tokens, about: the text is made to fit
    int tokens = 2;    // of the answer, which always has so many
    bool every_token =
        true;                // is an event, also a part of a character (log-probabilities are sent)
    bool token_ids = false;  // and says its policy version
    std::string history{};   // an earlier turn's text, which has the prompt's tokens on top
  };
  Result<BenchQuestion> Ask(const Wish& wish);
  Result<std::vector<BenchQuestion>> Ask(int count, const Wish& wish);
  // A text of about so many tokens; no two are alike.
  std::string Text(int tokens);

  // Asks the engine itself. The answer comes by engine().feed().
  SequenceId StartBare(const BenchQuestion& question);
  // Asks through HTTP.
  Result<std::vector<StreamTimes>> Stream(const std::vector<BenchQuestion>& questions,
                                          const StreamAllOptions& options) const;

  // The same weights under the next version.
  void Publish();
  uint64_t published() const { return published_; }
  // Requests the gateway holds now.
  size_t open() const;

  EngineThread& engine() { return *engine_; }
  const Clock& clock() const { return clock_; }
  bool on_gpu() const { return device_.rfind("cuda", 0) == 0; }

 private:
  const std::string& Directory() const { return options_.model.empty() ? made_ : options_.model; }
  Result<std::shared_ptr<const PolicyWeights>> StartWeights();

  const ServedBenchOptions options_;
  Random random_;
  RealClock clock_;
  Metrics metrics_;
  std::string made_;  // the directory of random weights
  std::string device_;
  double tokens_per_word_ = 0;
  PlanOptions plan_;
  SequenceId sequence_ = 0;
  uint64_t published_ = 1;
  std::shared_ptr<const PolicyWeights> weights_;  // shared: published again and again
  std::unique_ptr<WeightChannel> channel_;
  std::unique_ptr<EngineThread> engine_;
  std::optional<ServedPolicy> policy_;
  std::unique_ptr<PlainRecorder> recorder_;
  std::unique_ptr<Gateway> gateway_;
};

}  // namespace tidemill
