// Reference values written by transformers and PEFT, for tests (tests/golden, or $TIDEMILL_GOLDEN).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "model/torch/model.h"

namespace tidemill {

inline std::string GoldenDir() {
  const char* given = std::getenv("TIDEMILL_GOLDEN");
  return given != nullptr ? given : TIDEMILL_SOURCE_DIR "/tests/golden";
}

// The folders that hold a model and what is expected of it, sorted.
inline std::vector<std::string> GoldenModels() {
  std::vector<std::string> models;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenDir(), error)) {
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) {
      models.push_back(entry.path().string());
    }
  }
  std::sort(models.begin(), models.end());
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

}  // namespace tidemill
