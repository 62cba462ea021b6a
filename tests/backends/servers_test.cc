// Real vLLM servers, which scripts/backends started: the contract of the engine, and updates that
// go wrong without a word. TIDEMILL_BACKENDS_URL, _TIED_URL, _MOE_URL name the servers, .._MODEL,
// .._TIED_MODEL, .._MOE_MODEL the models they serve.
#include "model/torch/aten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

#include "core/random.h"
#include "engine/remote/remote_engine.h"
#include "learner/remote/rank_processes.h"
#include "learner/remote/remote_step.h"
#include "model/torch/model.h"
#include "model/torch/score.h"
#include "run/torch/served_versions.h"
#include "testing/engine_contract.h"
#include "weights/stored_weights.h"
#include "weights/torch/weight_codec.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

std::string Named(const std::string& name) {
  const char* value = std::getenv(("TIDEMILL_BACKENDS_" + name).c_str());
  TM_CHECK(value != nullptr && *value != '\0', "TIDEMILL_BACKENDS_" + name + " is not set");
  return value;
}

RemoteEngine::Servers ServersAt(const std::string& url) {
  RemoteEngine::Servers servers;
  servers.dialect = NewVllmDialect();
  servers.urls = {ParseHttpUrl(url).value()};
  servers.start_patience = std::chrono::minutes(2);
  return servers;
}

RemoteOptions Options(const ModelConfig& model) {
  RemoteOptions options;
  options.vocabulary = static_cast<int32_t>(model.vocab_size);
  options.max_context = kContractContext;
  options.token_bytes = LedgerBytes;
  options.salt_key = "a secret of the test";
  options.look_again = milliseconds(50);
  return options;
}

// The model with a little noise that its version decides.
std::shared_ptr<const PolicyWeights> Version(const std::string& model, uint64_t version) {
  const auto first = PolicyWeights::Load(model, {.dtype = Dtype::kF32}).value();
  torch::manual_seed(version);
  NamedTensors tensors;
  for (const auto& [name, tensor] : first->tensors()) {
    tensors.emplace(name, tensor + 0.02 * static_cast<double>(version - 1) *
                                       torch::randn(tensor.sizes(), tensor.options()));
  }
  return PolicyWeights::FromTensors(first->config(), std::move(tensors)).value();
}

class VllmContractEngine final : public ContractEngine {
 public:
  VllmContractEngine() : versions_(ServedVersions::In(folder_ / "versions", Dtype::kF32).value()) {
    const auto weights = Version(Named("MODEL"), 1);
    auto engine = RemoteEngine::Start(
        ServersAt(Named("URL")), Options(weights->config()), {1, 1, weights},
        [this](const PublishedWeights& published) { return versions_.Prepare(published); },
        *channel_, clock_);
    TM_CHECK(engine.ok(), engine.ok() ? "" : engine.status().message());
    engine_ = std::move(*engine);
  }
  EnginePort& port() override { return *engine_; }
  void Publish(uint64_t version) override {
    ASSERT_TRUE(channel_->Publish({version, version, Version(Named("MODEL"), version)}).ok());
  }
  bool exact() const override { return false; }

 private:
  const TemporaryDirectory folder_;
  const RealClock clock_;
  const ServedVersions versions_;
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  std::unique_ptr<RemoteEngine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Engines, EngineContract,
                         testing::Values(ContractRow{
                             "real_vllm", [] { return std::make_unique<VllmContractEngine>(); }}),
                         [](const auto& row) { return row.param.name; });

class SilentCorruption : public testing::Test {
 protected:
  // Version 1 passes; version 2 is written by `torn`; version 3 is right again.
  using Torn =
      std::function<Result<VersionPointer>(const ServedVersions&, const PublishedWeights&)>;
  void ExpectCaught(const std::string& url, const std::string& model, const Torn& torn) {
    const ServedVersions versions = ServedVersions::In(folder_ / "versions", Dtype::kF32).value();
    const auto channel = NewLocalWeightChannel();
    const auto first = Version(model, 1);
    auto started = RemoteEngine::Start(
        ServersAt(url), Options(first->config()), {1, 1, first},
        [&](const PublishedWeights& published) {
          return published.version == 2 ? torn(versions, published) : versions.Prepare(published);
        },
        *channel, clock_);
    ASSERT_TRUE(started.ok()) << started.status().message();
    RemoteEngine& engine = **started;
    ASSERT_TRUE(channel->Publish({2, 2, Version(model, 2)}).ok());
    ASSERT_TRUE(Eventually([&] { return engine.Stats().versions_held == 0; }))
        << "version " << engine.version() << " serves";
    EXPECT_NE(engine.version(), 2u);
    ASSERT_TRUE(channel->Publish({3, 3, Version(model, 3)}).ok());
    EXPECT_TRUE(Eventually([&] {
      EXPECT_NE(engine.version(), 2u);
      return engine.version() == 3;
    })) << "a full update repairs it";
  }

  const TemporaryDirectory folder_;
  const RealClock clock_;
};

// vLLM keeps q, k and v as one tensor: a file with one of them alone leaves the rest undefined.
TEST_F(SilentCorruption, APartOfAFusedModuleAloneIsCaught) {
  ExpectCaught(Named("URL"), Named("MODEL"),
               [&](const ServedVersions& versions,
                   const PublishedWeights& published) -> Result<VersionPointer> {
                 TM_ASSIGN_OR_RETURN(const VersionPointer whole, versions.Prepare(published));
                 const auto weights = ToPolicyWeights(published.weights);
                 TM_ASSIGN_OR_RETURN(HostTensors host, ToHost(weights->tensors()));
                 std::erase_if(host.views, [](const TensorView& view) {
                   return view.name.find("q_proj") == std::string::npos;
                 });
                 WeightFiles part = whole->files();
                 part.file = folder_ / "part.safetensors";
                 TM_RETURN_IF_ERROR(WriteSafetensors(part.file, host.views));
                 const std::string text = TextOf(part.file);
                 WeightChecksum sum;
                 sum.Add(reinterpret_cast<const std::byte*>(text.data()), text.size());
                 char digits[17];
                 std::snprintf(digits, sizeof digits, "%016llx",
                               static_cast<unsigned long long>(sum.Value()));
                 part.checksum = digits;
                 part.bytes = text.size();
                 return VersionPointer(std::make_shared<PreparedVersion>(
                     std::move(part), whole->canary(), [whole] {}));
               });
}

// Where embeddings are tied, vLLM on the CPU keeps the old ones in its head.
TEST_F(SilentCorruption, AHeadThatKeepsOldTiedEmbeddingsIsCaught) {
  const ServedVersions versions = ServedVersions::In(folder_ / "versions", Dtype::kF32).value();
  const auto channel = NewLocalWeightChannel();
  const std::string model = Named("TIED_MODEL");
  const auto first = Version(model, 1);
  auto started = RemoteEngine::Start(
      ServersAt(Named("TIED_URL")), Options(first->config()), {1, 1, first},
      [&](const PublishedWeights& published) { return versions.Prepare(published); }, *channel,
      clock_);
  ASSERT_TRUE(started.ok()) << started.status().message();
  ASSERT_TRUE(channel->Publish({2, 2, Version(model, 2)}).ok());
  EXPECT_TRUE(Eventually([&] { return (*started)->Stats().versions_held == 0; }));
  EXPECT_NE((*started)->version(), 2u);
}

// Experts come out wrong of any update of vLLM on the CPU.
TEST_F(SilentCorruption, ExpertsThatComeOutWrongAreCaught) {
  const std::string model = Named("MOE_MODEL");
  RankCommand command{
      .words = {Named("PYTHON"), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                "{ranks}", "-m", "tidemill_fsdp", "--socket", "{socket}"},
      .ranks = 1,
      .log = folder_ / "ranks.log",
      .join_patience = std::chrono::minutes(5),
      .answer_patience = std::chrono::minutes(2)};
  RankMessage hello;
  hello.words = {{"model", model},     {"adapter", ""},      {"precision", "float32"},
                 {"recompute", false}, {"reference", false}, {"value_head", false},
                 {"beta1", 0.9},       {"beta2", 0.95},      {"eps", 1e-8},
                 {"weight_decay", 0.0}};
  auto ranks = RankProcesses::Start(command, hello);
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  StoredModel stored;
  stored.folder = folder_ / "version-1";
  for (TokenId id = 3; id < 40; ++id) stored.canary_ids.push_back(id);
  RankMessage ask = RemoteStep::Canary(stored.canary_ids);
  ask.words["verb"] = "publish";
  ask.words["folder"] = stored.folder;
  ask.words["dtype"] = "float32";
  ask.words["merged"] = true;
  auto answer = (*ranks)->Ask(ask);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  stored.bytes = answer->words.at("bytes");
  stored.checksum = answer->words.at("checksum");
  stored.canary_logprobs = answer->floats.at("logprobs");
  const ServedVersions versions = ServedVersions::In(folder_ / "versions", Dtype::kF32).value();
  const auto channel = NewLocalWeightChannel();
  ModelConfig shape;
  shape.vocab_size = 128;
  auto servers = ServersAt(Named("MOE_URL"));
  servers.start_patience = std::chrono::seconds(20);
  const auto started = RemoteEngine::Start(
      std::move(servers), Options(shape),
      {1, 1, std::make_shared<StoredWeights>(std::move(stored), nullptr)},
      [&](const PublishedWeights& published) { return versions.Prepare(published); }, *channel,
      clock_);
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.status().message(), HasSubstr("the canary of version 1 is wrong"));
}

}  // namespace
}  // namespace tidemill
