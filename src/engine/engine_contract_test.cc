// The contract on the engine of this program and on both kinds of scripted inference servers.
#include "testing/engine_contract.h"

#include "testing/remote_kit.h"

namespace tidemill {
namespace {

class OwnContractEngine final : public ContractEngine {
 public:
  EnginePort& port() override { return thread_; }
  void Publish(uint64_t version) override {
    ASSERT_TRUE(
        channel_->Publish({version, version, std::make_shared<LedgerWeights>(version)}).ok());
  }

 private:
  static std::unique_ptr<Engine> NewLedgerEngine() {
    constexpr int32_t kPages = 4096;
    return NewBatchEngine({.scheduling = {.pages = kPages,
                                          .max_context = kContractContext,
                                          .max_running = 64,
                                          .cache_seed = 7},
                           .vocabulary = kLedgerVocabulary,
                           .version = 1,
                           .token_bytes = LedgerBytes},
                          std::make_unique<LedgerBackend>(kPages, 1, 1));
  }

  RealClock clock_;
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  EngineThread thread_{NewLedgerEngine(), *channel_, clock_, {}};
};

class ScriptedContractEngine final : public ContractEngine {
 public:
  explicit ScriptedContractEngine(ScriptedKind kind)
      : kit_({.kind = kind, .max_context = kContractContext}) {}
  EnginePort& port() override { return kit_.engine(); }
  void Publish(uint64_t version) override { kit_.Publish(version); }

 private:
  RemoteKit kit_;
};

INSTANTIATE_TEST_SUITE_P(
    Engines, EngineContract,
    testing::Values(
        ContractRow{"own", [] { return std::make_unique<OwnContractEngine>(); }},
        ContractRow{"vllm",
                    [] { return std::make_unique<ScriptedContractEngine>(ScriptedKind::kVllm); }},
        ContractRow{
            "sglang",
            [] { return std::make_unique<ScriptedContractEngine>(ScriptedKind::kSglang); }}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace tidemill
