// A model directory behind the gateway: `tidemill serve`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/status.h"
#include "live/live_operator.h"
#include "run/gateway_host.h"
#include "run/run_config.h"
#include "run/torch/open_engine.h"
#include "weights/weight_channel.h"

namespace tidemill {

class PolicyWeights;

// Where sessions are kept.
struct RecordTo {
  std::string folder = "runs";
  std::string run{};  // empty: nowhere
};

// LoRA adapters beside the model.
struct ServeAdapters {
  uint32_t most = 0;                                           // at once; 0: there are none
  int64_t max_rank = 16;                                       // a GPU keeps room for it
  std::vector<std::pair<std::string, std::string>> modules{};  // name and PEFT directory
};

// What of a server is no key of the config.
struct ServeUse {
  RecordTo record{};
  ServedWords words{};
  ServeAdapters adapters{};
  std::string api_key{};  // instead of gateway.keys; empty: none
};

class PolicyServer {
 public:
  // Serves config.model.path with config.model.adapter as config.gateway says. With a run to record
  // to, what a request leaves open is drawn as training draws. Failures name the file, the key or
  // the run.
  static Result<std::unique_ptr<PolicyServer>> Start(RunConfig config, const ServeUse& use);
  ~PolicyServer();

  std::string url() const { return host_->gateway().url(); }
  const std::vector<std::string>& warnings() const { return host_->warnings(); }
  // What is served, for people: a name and what it is, line by line.
  const std::vector<std::pair<std::string, std::string>>& lines() const { return lines_; }
  // As Gateway::FiguresJson.
  std::string FiguresJson() const { return host_->gateway().FiguresJson(); }
  // As Gateway::Drain.
  Status Drain(Duration patience) { return host_->gateway().Drain(patience); }

 private:
  PolicyServer() = default;
  // Tells commands where to find this process.
  Status Announce();
  Status OpenAdapters(const RunConfig& config, const ServeUse& use,
                      const std::shared_ptr<const PolicyWeights>& base);
  // Opens the run; the gateway owns what remembers.
  Result<std::unique_ptr<TurnRecorder>> Remember(const RunConfig& config, const RecordTo& record);

  // `weights`: ModelConfig of what is served, its type and device.
  void Describe(const RunConfig& config, const PolicyWeights& weights, int threads);

  RealClock clock_;
  std::vector<std::pair<std::string, std::string>> lines_;
  Metrics metrics_;
  std::unique_ptr<WeightChannel> channel_;
  OpenedEngine engine_;
  std::unique_ptr<ServedAdapters> adapters_;  // null: there are none
  // Before the gateway, whose threads use them; the run is the gateway's.
  LiveRun* live_ = nullptr;
  std::string announced_;  // the file that tells; empty: nobody is told
  std::optional<LiveOperator> operator_;
  std::unique_ptr<GatewayHost> host_;
};

}  // namespace tidemill
