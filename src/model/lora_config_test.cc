#include "model/lora_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "model/json_fields.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

constexpr const char* kQ = "model.layers.1.self_attn.q_proj";
constexpr const char* kUp = "model.layers.1.mlp.up_proj";

nlohmann::json BaseAdapter() {
  return {{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"target_modules", {"q_proj"}}};
}

Result<LoraConfig> ParseAdapter(const nlohmann::json& json) {
  return ParseLoraConfig(json.dump(), "a.json");
}

TEST(LoraConfig, ReadsTargetsRankAndScaling) {
  const auto config = ParseAdapter(BaseAdapter());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->Targets(kQ));
  EXPECT_FALSE(config->Targets(kUp));
  EXPECT_FALSE(config->Targets("model.layers.1.self_attn.my_q_proj"));
  EXPECT_EQ(config->ScalingOf(kQ), 2.0);
}

TEST(LoraConfig, RsloraScalesByTheRootOfTheRank) {
  nlohmann::json json = BaseAdapter();
  json["use_rslora"] = true;
  EXPECT_DOUBLE_EQ(ParseAdapter(json)->ScalingOf(kQ), 8 / std::sqrt(4.0));
}

TEST(LoraConfig, APatternTargetsWholeNames) {
  nlohmann::json json = BaseAdapter();
  json["target_modules"] = R"(.*\.layers\.1\..*\.(q|up)_proj)";
  const auto config = ParseAdapter(json);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->Targets(kQ));
  EXPECT_FALSE(config->Targets("model.layers.11.self_attn.q_proj"));
  EXPECT_FALSE(config->Targets(std::string(kQ) + "x"));
  json["target_modules"] = "all-linear";
  EXPECT_TRUE(ParseAdapter(json)->Targets(kUp));
  EXPECT_FALSE(ParseAdapter(json)->Targets("lm_head"));
}

TEST(LoraConfig, PatternsGiveSomeModulesTheirOwnRank) {
  nlohmann::json json = BaseAdapter();
  json["target_modules"] = {"q_proj", "up_proj"};
  json["rank_pattern"] = {{R"(layers\.\d+\.mlp\.up_proj)", 2}};
  json["alpha_pattern"] = {{"up_proj", 3}};
  const auto config = ParseAdapter(json);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->RankOf(kUp), 2);
  EXPECT_EQ(config->RankOf(kQ), 4);
  EXPECT_DOUBLE_EQ(config->ScalingOf(kUp), 1.5);
}

TEST(LoraConfig, WhatWouldChangeTheNumbersIsRefusedByName) {
  const std::vector<std::pair<const char*, nlohmann::json>> wrong = {
      {"modules_to_save", {"lm_head"}},
      {"bias", "all"},
      {"fan_in_fan_out", true},
      {"use_dora", true},
      {"r", 0},
      {"lora_alpha", "x"},
      {"peft_type", "IA3"},
      {"task_type", "SEQ_CLS"},
      {"layers_to_transform", {1}},
      {"init_lora_weights", "pissa"},
      {"target_modules", nlohmann::json::array()},
      {"target_modules", "(q"},
      {"rank_pattern", {{"q", 0}}},
      {"lora_bias", true}};
  for (const auto& [key, value] : wrong) {
    nlohmann::json json = BaseAdapter();
    json[key] = value;
    const auto config = ParseAdapter(json);
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_THAT(config.status().message(), HasSubstr("a.json: \"" + std::string(key) + "\""));
  }
}

TEST(LoraConfigGolden, EveryAdapterIsReadAndWrittenTheSame) {
  for (const std::string& dir : GoldenModels(SourceDir())) {
    SCOPED_TRACE(dir);
    if (!std::filesystem::exists(dir + "/lora/adapter_config.json")) continue;
    const auto config = ReadLoraConfig(dir + "/lora");
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    const std::string json = LoraConfigJson(*config);
    const auto again = ParseLoraConfig(json, "again");
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(LoraConfigJson(*again), json);
    EXPECT_EQ(again->target_modules, config->target_modules);
  }
}

}  // namespace
}  // namespace tidemill
