// For tests and benchmarks: a remote engine over scripted servers. Version N has weights number N.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/remote/remote_engine.h"
#include "testing/scripted_host.h"
#include "testing/ledger_run.h"
#include "testing/number_weights.h"
#include "testing/test_kit.h"

namespace tidemill {

// Files that are only names.
inline VersionPointer NamedVersion(uint64_t version) {
  const std::string name = "/weights-" + std::to_string(version);
  return std::make_shared<PreparedVersion>(
      WeightFiles{.version = version,
                  .folder = name,
                  .file = name + ".safetensors",
                  .bytes = 1,
                  .checksum = "00"},
      ScriptedInference::CanaryOf(LedgerPrompt(24, 3), version), nullptr);
}

struct RemoteKitOptions {
  ScriptedKind kind = ScriptedKind::kVllm;
  int32_t max_context = 2048;
  size_t servers = 1;
  Duration pace{};
  RemoteOptions remote{};
};

class RemoteKit {
 public:
  explicit RemoteKit(RemoteKitOptions options) {
    for (size_t i = 0; i < options.servers; ++i) {
      hosts_.push_back(std::make_unique<ScriptedHost>(
          ScriptedInference::Options{.kind = options.kind,
                                     .vocabulary = kLedgerVocabulary,
                                     .max_context = options.max_context},
          options.pace));
    }
    options_ = options;
    RemoteOptions& remote = options_.remote;
    remote.vocabulary = kLedgerVocabulary;
    remote.token_bytes = LedgerBytes;
    remote.salt_key = "a secret of the test";
    remote.look_again = milliseconds(20);
    if (options.kind == ScriptedKind::kSglang) remote.cache_on_swap = CacheOnSwap::kRebuild;
  }

  // Before the engine is first used, servers may be given faults.
  Result<RemoteEngine*> Open() {
    RemoteEngine::Servers servers;
    servers.dialect = options_.kind == ScriptedKind::kVllm ? NewVllmDialect() : NewSglangDialect();
    for (const auto& host : hosts_) servers.urls.push_back(host->url());
    servers.start_patience = kPatience;
    TM_ASSIGN_OR_RETURN(engine_, RemoteEngine::Start(
                                     std::move(servers), options_.remote, NumberVersion(1),
                                     [](const PublishedWeights& weights) -> Result<VersionPointer> {
                                       return NamedVersion(weights.version);
                                     },
                                     *channel_, clock_));
    return engine_.get();
  }
  RemoteEngine& engine() {
    if (engine_ == nullptr) {
      const auto opened = Open();
      TM_CHECK(opened.ok(), opened.ok() ? "" : opened.status().message());
    }
    return *engine_;
  }
  ScriptedHost& host(size_t i = 0) { return *hosts_[i]; }
  void Publish(uint64_t version) {
    TM_CHECK(channel_->Publish(NumberVersion(version)).ok(), "versions rise");
  }

 private:
  RealClock clock_;
  RemoteKitOptions options_;
  std::vector<std::unique_ptr<ScriptedHost>> hosts_;
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  std::unique_ptr<RemoteEngine> engine_;
};

}  // namespace tidemill
