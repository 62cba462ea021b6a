// Reference values written by transformers and PEFT, for tests (tests/golden, or $TIDEMILL_GOLDEN).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "model/torch/aten.h"
#include "model/torch/model.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"

namespace tidemill {

inline std::string GoldenDir() {
  return GoldenRoot(SourceDir());
}

// The folders that hold a model and what is expected of it; those beside the sources also where
// they are not there, so that their tests are skipped by name.
inline std::vector<std::string> GoldenModels() {
  std::vector<std::string> models;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenDir(), error)) {
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) {
      models.push_back(entry.path().string());
    }
  }
  std::sort(models.begin(), models.end());
  for (const std::string& model : SharedGoldenModels(SourceDir())) {
    const bool there = std::any_of(models.begin(), models.end(), [&](const std::string& known) {
      return std::filesystem::path(known).filename() == std::filesystem::path(model).filename();
    });
    if (!there) models.push_back(model);
  }
  return models;
}

// Those without experts, which a GPU does not compute.
inline std::vector<std::string> GoldenDenseModels() {
  std::vector<std::string> models = GoldenModels();
  std::erase_if(models, [](const std::string& model) {
    const Result<ModelConfig> config = ReadModelConfig(model);
    return config.ok() && config->experts.count > 0;
  });
  return models;
}

inline std::string GoldenName(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).filename().string();
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
}

inline std::vector<int32_t> Ids(const at::Tensor& tensor) {
  const int32_t* data = tensor.data_ptr<int32_t>();
  return {data, data + tensor.numel()};
}

// A test with one golden model: its weights and the values expected of it.
class GoldenModelTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(GetParam())) {
      GTEST_SKIP() << MissingSharedGolden(SourceDir());
    }
    auto weights = PolicyWeights::Load(GetParam());
    ASSERT_TRUE(weights.ok()) << weights.status().ToString();
    weights_ = *weights;
    auto expected = ReadTensors(GetParam() + "/expected.safetensors");
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    expected_ = *expected;
    for (int i = 0; expected_.contains("seq" + std::to_string(i) + ".ids"); ++i) {
      sequences_.push_back(Ids(Expected("seq" + std::to_string(i) + ".ids")));
    }
    ASSERT_FALSE(sequences_.empty());
  }

  const at::Tensor& Expected(const std::string& name) const { return expected_.at(name); }

  std::shared_ptr<const PolicyWeights> weights_;
  NamedTensors expected_;
  std::vector<std::vector<int32_t>> sequences_;
};

inline double MaxDifference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kFloat) - b.to(at::kFloat)).abs().max().item<double>();
}

// Mean negative log-likelihood of every next token of every sequence, through the chunked function.
inline at::Tensor MeanLoss(const ModelTensorsView& view, const at::Tensor& hidden,
                           const PackedBatch& batch, int64_t chunk) {
  std::vector<at::Tensor> rows, targets;
  for (size_t s = 0; s + 1 < batch.starts.size(); ++s) {
    const int64_t first = batch.starts[s], n = batch.starts[s + 1] - first - 1;
    rows.push_back(hidden.narrow(0, first, n));
    targets.push_back(batch.tokens.narrow(0, first + 1, n));
  }
  return -TokenLogprobs(view, at::cat(rows), at::cat(targets), 1.0, chunk).logprobs.mean();
}

// The same with the adapter that PEFT trained on it.
class GoldenAdapterTest : public GoldenModelTest {
 protected:
  void SetUp() override {
    GoldenModelTest::SetUp();
    if (IsSkipped()) return;
    auto adapter = LoadAdapter(GetParam() + "/lora", weights_->config());
    ASSERT_TRUE(adapter.ok()) << adapter.status().ToString();
    auto adapted = PolicyWeights::WithAdapter(weights_, *adapter);
    ASSERT_TRUE(adapted.ok()) << adapted.status().ToString();
    adapted_ = *adapted;
    auto expected = ReadTensors(GetParam() + "/lora/expected.safetensors");
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    lora_logits_ = expected->at("seq0.logits");
  }

  at::Tensor LogitsOf(const PolicyWeights& weights) const {
    return Logits(weights.view(),
                  ForwardHidden(weights.config(), weights.view(), Pack({sequences_[0]})));
  }

  std::shared_ptr<const PolicyWeights> adapted_;
  at::Tensor lora_logits_;
};

}  // namespace tidemill
