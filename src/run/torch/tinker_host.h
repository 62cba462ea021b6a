// Model directories behind the Tinker API: `tidemill tinker`, and [tinker] of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "engine/engine_port.h"
#include "run/process.h"
#include "tinker/tinker_server.h"
#include "tinker/torch/torch_models.h"
#include "weights/weight_channel.h"

namespace tidemill {

// With the keys read. kInvalid names their file.
Result<TinkerOptions> TinkerOptionsFrom(const TinkerConfig& config, const std::string& folder);

class TinkerHost {
 public:
  // Serves each of `directories`, "DIR" or "NAME=DIR", on the device and threads of `config`.
  // kInvalid names the directory, the key of the config, or a name that two directories have.
  static Result<std::unique_ptr<TinkerHost>> Start(const std::vector<std::string>& directories,
                                                   const RunConfig& config, TinkerOptions options);

  std::string url() const { return server_->url(); }

 private:
  TinkerHost() = default;
  Status AddBase(const std::string& words, RunConfig config, int64_t rank_max);

  RealClock clock_;
  std::vector<std::unique_ptr<WeightChannel>> channels_;  // nothing comes through them
  std::vector<std::unique_ptr<EngineThread>> engines_;
  TorchModels::Bases weights_;
  std::vector<ServedBase> bases_;
  std::unique_ptr<TorchModels> models_;
  std::unique_ptr<TinkerServer> server_;
};

// The Tinker API beside a run: clients train adapters on the model that the run begins with.
class TinkerRunHost final : public Host {
 public:
  explicit TinkerRunHost(Process& process) : process_(process) {}
  // Its folder is tinker/ of the run.
  Status Open();

 private:
  Process& process_;
  std::unique_ptr<TinkerHost> served_;
};

}  // namespace tidemill
