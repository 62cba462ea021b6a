#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/files.h"
#include "model/generation_config.h"
#include "model/json_fields.h"
#include "model/layer_plan.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

nlohmann::json BaseModel(const char* type = "llama",
                         const char* architecture = "LlamaForCausalLM") {
  return {{"architectures", {architecture}},
          {"model_type", type},
          {"vocab_size", 512},
          {"hidden_size", 64},
          {"intermediate_size", 160},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"eos_token_id", {2, 7}}};
}

Result<ModelConfig> ParseModel(const nlohmann::json& json) {
  return ParseModelConfig(json.dump(), "m/config.json");
}

// `BaseModel()` with one field changed is refused with a message that names the file and has `part`
// in it.
void ExpectRefused(const char* key, const nlohmann::json& value, const char* part) {
  nlohmann::json json = BaseModel();
  json[key] = value;
  const auto config = ParseModel(json);
  ASSERT_FALSE(config.ok()) << key << " " << value;
  EXPECT_EQ(config.status().code(), Code::kInvalid);
  EXPECT_THAT(config.status().message(), HasSubstr("m/config.json: "));
  EXPECT_THAT(config.status().message(), HasSubstr(part));
}

TEST(ModelConfig, ReadsAFileOfLlama) {
  const auto config = ParseModel(BaseModel());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->family, ModelFamily::kLlama);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_EQ(config->rope.theta, 10000.0);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2, 7));
}

TEST(ModelConfig, Qwen2HasBiasesOnQueriesKeysAndValuesOnly) {
  const auto config = ParseModel(BaseModel("qwen2", "Qwen2ForCausalLM"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->output_bias);
  EXPECT_EQ(PlanDecoder(*config).layers[0].qk_norm, QueryKeyNorm::kNone);
}

TEST(ModelConfig, Qwen3HasHeadsOf128UnlessToldAndNormalizesThem) {
  const auto config = ParseModel(BaseModel("qwen3", "Qwen3ForCausalLM"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->head_dim, 128);
  EXPECT_EQ(PlanDecoder(*config).layers[0].qk_norm, QueryKeyNorm::kByHead);
}

nlohmann::json Qwen3Moe() {
  nlohmann::json json = BaseModel("qwen3_moe", "Qwen3MoeForCausalLM");
  json["num_experts"] = 8;
  json["num_experts_per_tok"] = 3;
  json["moe_intermediate_size"] = 16;
  return json;
}

TEST(ModelConfig, Qwen3MoeSaysWhichLayersHaveExpertsAndHowTheyAreWeighted) {
  nlohmann::json json = Qwen3Moe();
  const auto plain = ParseModel(json);
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_FALSE(plain->experts.normalized);
  EXPECT_EQ(plain->experts.layers, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(plain->head_dim, 16);
  json["num_hidden_layers"] = 6;
  json["decoder_sparse_step"] = 2;
  json["mlp_only_layers"] = {3};
  json["norm_topk_prob"] = true;
  json["num_local_experts"] = 8;
  const auto some = ParseModel(json);
  ASSERT_TRUE(some.ok()) << some.status().ToString();
  EXPECT_TRUE(some->experts.normalized);
  EXPECT_EQ(some->experts.layers, (std::vector<bool>{false, true, false, false, false, true}));
  const DecoderPlan plan = PlanDecoder(*some);
  EXPECT_EQ(plan.ChoicesOfToken(), 6);
  EXPECT_EQ(plan.FirstChoice(5), 3);
  EXPECT_EQ(plan.layers[0].experts.count, 0);
  EXPECT_EQ(ParseModelConfig(ModelConfigJson(*some), "again")->experts.layers,
            some->experts.layers);
  // 5 of the 8 experts of two layers: gate, up and down.
  EXPECT_EQ(some->ParameterCount() - some->ActiveParameterCount(), 2 * 5 * 3 * 16 * 64);
}

TEST(ModelConfig, ShapesOfTheQwen3ModelsWithExpertsHaveTheirNumbers) {
  const auto small = ReadModelConfig(SourceDir() + "/examples/shapes/30b-a3b");
  const auto large = ReadModelConfig(SourceDir() + "/examples/shapes/235b-a22b");
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(small->ParameterCount(), 30'532'122'624);
  EXPECT_EQ(large->ParameterCount(), 235'093'634'560);
  EXPECT_NEAR(static_cast<double>(small->ActiveParameterCount()), 3.3e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(large->ActiveParameterCount()), 22e9, 0.5e9);
}

TEST(ModelConfig, Qwen3MoeHasAWindowOnAllLayersOrNone) {
  nlohmann::json json = Qwen3Moe();
  json["sliding_window"] = 20;
  EXPECT_TRUE(ParseModel(json)->windowed.empty());
  json["use_sliding_window"] = true;
  EXPECT_EQ(ParseModel(json)->windowed, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(ParseModel(json)->window, 20);
  json["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(ParseModel(json).status().message(), HasSubstr("\"layer_types\" names layers"));
}

TEST(ModelConfig, ExpertsThatDoNotFitAreRefusedByName) {
  const std::pair<const char*, std::pair<nlohmann::json, const char*>> cases[] = {
      {"num_experts_per_tok", {9, "\"num_experts_per_tok\" (9) must be from 1"}},
      {"num_local_experts", {4, "contradict each other"}},
      {"mlp_only_layers", {{3}, "\"mlp_only_layers\" must name layers from 0 to 2"}},
      {"mlp_only_layers", {"0", "must be a list of layers"}},
      {"decoder_sparse_step", {0, "\"decoder_sparse_step\""}},
      {"moe_intermediate_size", {nullptr, "\"moe_intermediate_size\" is missing"}},
      {"norm_topk_prob", {1, "\"norm_topk_prob\" must be true or false"}},
      {"router_aux_loss_coef", {-1, "\"router_aux_loss_coef\""}},
  };
  for (const auto& [key, expected] : cases) {
    nlohmann::json json = Qwen3Moe();
    json[key] = expected.first;
    EXPECT_THAT(ParseModel(json).status().message(), HasSubstr(expected.second)) << key;
  }
  nlohmann::json json = BaseModel("mixtral", "MixtralForCausalLM");
  json["router_jitter_noise"] = 0.1;
  EXPECT_THAT(ParseModel(json).status().message(), HasSubstr("\"router_jitter_noise\""));
  json["router_jitter_noise"] = 0.0;
  ASSERT_TRUE(ParseModel(json).ok());
  EXPECT_EQ(ParseModel(json)->experts.width, 160);
  EXPECT_TRUE(ParseModel(json)->experts.normalized);
  EXPECT_EQ(ParseModel(json)->rope.theta, 1e6);
}

TEST(ModelConfig, BothSpellingsOfRopeGiveTheSame) {
  nlohmann::json older = BaseModel();
  older["rope_theta"] = 500000.0;
  older["rope_scaling"] = {{"type", "llama3"},
                           {"factor", 8.0},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0},
                           {"original_max_position_embeddings", 128}};
  nlohmann::json newer = BaseModel();
  newer["rope_parameters"] = older["rope_scaling"];
  newer["rope_parameters"].erase("type");
  newer["rope_parameters"]["rope_type"] = "llama3";
  newer["rope_parameters"]["rope_theta"] = 500000.0;
  const auto a = ParseModel(older);
  const auto b = ParseModel(newer);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status().ToString() << b.status().ToString();
  EXPECT_EQ(ModelConfigJson(*a), ModelConfigJson(*b));
  EXPECT_EQ(a->rope.type, RopeType::kLlama3);
  EXPECT_EQ(a->rope.original_max_position_embeddings, 128);
  EXPECT_EQ(a->rope.theta, 500000.0);
}

TEST(ModelConfig, WrongFieldsAreRefusedByName) {
  ExpectRefused("vocab_size", 0, "\"vocab_size\" must be a whole number from 1");
  ExpectRefused("hidden_size", "64", "\"hidden_size\"");
  ExpectRefused("hidden_size", 65, "\"hidden_size\" (65) must be a multiple");
  ExpectRefused("hidden_size", 1.5, "\"hidden_size\"");
  ExpectRefused("hidden_size", 18446744073709551615ULL, "\"hidden_size\"");
  ExpectRefused("intermediate_size", nullptr, "\"intermediate_size\" is missing");
  ExpectRefused("num_hidden_layers", -3, "\"num_hidden_layers\"");
  ExpectRefused("num_key_value_heads", 3, "\"num_key_value_heads\" (3) must divide");
  ExpectRefused("num_key_value_heads", 8, "\"num_key_value_heads\"");
  ExpectRefused("head_dim", 15, "\"head_dim\" must be even");
  ExpectRefused("rms_norm_eps", 0.0, "\"rms_norm_eps\"");
  ExpectRefused("hidden_act", "gelu", "\"hidden_act\" must be \"silu\"");
  ExpectRefused("tie_word_embeddings", 1, "\"tie_word_embeddings\" must be true or false");
  ExpectRefused("eos_token_id", 512, "\"eos_token_id\"");
  ExpectRefused("torch_dtype", "int8", "\"torch_dtype\"");
  ExpectRefused("rope_theta", 0.5, "\"rope_theta\"");
  ExpectRefused("rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, "\"dynamic\"");
  ExpectRefused("rope_scaling", {{"type", "linear"}}, "rope_scaling: \"factor\" is missing");
  ExpectRefused("rope_parameters", {{"rope_type", "llama3"}, {"factor", 8.0}}, "rope_parameters: ");
  ExpectRefused("partial_rotary_factor", 0.5, "\"partial_rotary_factor\"");
}

TEST(ModelConfig, WhatIsNotSupportedIsRefusedByName) {
  ExpectRefused("model_type", "gpt2", "\"gpt2\", which is not supported; \"llama\", \"qwen2\"");
  ExpectRefused("attention_bias", 1, "\"attention_bias\" must be true or false");
  ExpectRefused("architectures", {"LlamaForSequenceClassification"}, "\"architectures\"");
  ExpectRefused("quantization_config", {{"quant_method", "gptq"}}, "\"gptq\"");
  ExpectRefused("layer_types", {"full_attention", "sliding_attention"}, "\"sliding_attention\"");
}

// The window of each layer, 0 where there is none.
std::vector<int64_t> Windows(const ModelConfig& config) {
  std::vector<int64_t> windows;
  for (const LayerPlan& layer : PlanDecoder(config).layers) windows.push_back(layer.window);
  return windows;
}

TEST(ModelConfig, QwenHasWindowsBehindItsFirstLayersWhereTheyAreSwitchedOn) {
  nlohmann::json json = BaseModel("qwen2", "Qwen2ForCausalLM");
  json["sliding_window"] = 128;
  json["max_window_layers"] = 2;
  json["use_sliding_window"] = false;
  EXPECT_THAT(Windows(ParseModel(json).value()), ElementsAre(0, 0, 0));
  json["use_sliding_window"] = true;
  EXPECT_THAT(Windows(ParseModel(json).value()), ElementsAre(0, 0, 128));
  json["max_window_layers"] = 3;
  EXPECT_THAT(Windows(ParseModel(json).value()), ElementsAre(0, 0, 0));
  json["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  const ModelConfig listed = ParseModel(json).value();
  EXPECT_THAT(Windows(listed), ElementsAre(128, 0, 0)) << "the list decides";
  const auto again = ParseModelConfig(ModelConfigJson(listed), "again");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_THAT(Windows(*again), ElementsAre(128, 0, 0));
  json["use_sliding_window"] = false;
  EXPECT_THAT(ParseModel(json).status().message(), HasSubstr("\"layer_types\" holds \"sliding"));
  json["use_sliding_window"] = true;
  json["sliding_window"] = 512;  // no position leaves it
  EXPECT_THAT(Windows(ParseModel(json).value()), ElementsAre(0, 0, 0));
  json["sliding_window"] = nullptr;
  EXPECT_THAT(
      ParseModel(json).status().message(),
      HasSubstr("\"sliding_window\" must be 1 or more where a layer has a window, got null"));
}

TEST(ModelConfig, MistralHasAWindowOnEveryLayerUnlessItIsNullOrAListDecides) {
  nlohmann::json json = BaseModel("mistral", "MistralForCausalLM");
  json["max_position_embeddings"] = 8192;
  EXPECT_THAT(Windows(ParseModel(json).value()), ElementsAre(4096, 4096, 4096));
  json["sliding_window"] = 12;
  EXPECT_THAT(Windows(ParseModel(json).value()), ElementsAre(12, 12, 12));
  json["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  const ModelConfig listed = ParseModel(json).value();
  EXPECT_THAT(Windows(listed), ElementsAre(0, 12, 0));
  EXPECT_THAT(Windows(ParseModelConfig(ModelConfigJson(listed), "again").value()),
              ElementsAre(0, 12, 0));
  json.erase("layer_types");
  json["sliding_window"] = nullptr;
  const ModelConfig full = ParseModel(json).value();
  EXPECT_THAT(Windows(full), ElementsAre(0, 0, 0));
  EXPECT_THAT(Windows(ParseModelConfig(ModelConfigJson(full), "again").value()),
              ElementsAre(0, 0, 0));
  json["attention_bias"] = true;
  EXPECT_THAT(ParseModel(json).status().message(),
              HasSubstr("\"attention_bias\" is true, but a mistral model has no such"));
  json["attention_bias"] = false;
  json["layer_types"] = {"full_attention", "chunked_attention", "full_attention"};
  EXPECT_THAT(ParseModel(json).status().message(),
              HasSubstr("\"layer_types\" holds \"chunked_attention\""));
  json["layer_types"] = {"full_attention"};
  EXPECT_THAT(ParseModel(json).status().message(),
              HasSubstr("\"layer_types\" must name each of the 3 layers, got a list of 1"));
}

nlohmann::json Gemma() {
  nlohmann::json json = BaseModel("gemma3_text", "Gemma3ForCausalLM");
  json.erase("hidden_act");
  json["sliding_window"] = 9;
  return json;
}

TEST(ModelConfig, Gemma3HasWhatItsConfigDoesNotSay) {
  nlohmann::json json = Gemma();
  json["num_hidden_layers"] = 7;
  const ModelConfig config = ParseModel(json).value();
  EXPECT_THAT(Windows(config), ElementsAre(9, 9, 9, 9, 9, 0, 9));
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  const DecoderPlan plan = PlanDecoder(config);
  EXPECT_EQ(plan.norm_offset, 1);
  EXPECT_EQ(plan.embedding_scale, 8);
  EXPECT_EQ(plan.attention_scale, 1.0 / 16);
  ASSERT_EQ(plan.ropes.size(), 2u);
  EXPECT_EQ(plan.ropes[static_cast<size_t>(plan.layers[0].rope)].theta, 1e4);
  EXPECT_EQ(plan.ropes[static_cast<size_t>(plan.layers[5].rope)].theta, 1e6);
}

TEST(ModelConfig, Gemma3HasARotationForEachKindOfLayerInBothSpellings) {
  nlohmann::json older = Gemma();
  older["sliding_window_pattern"] = 2;
  older["rope_theta"] = 5e5;
  older["rope_local_base_freq"] = 2e4;
  older["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  nlohmann::json newer = Gemma();
  newer["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  newer["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5e5}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  const ModelConfig a = ParseModel(older).value(), b = ParseModel(newer).value();
  EXPECT_EQ(ModelConfigJson(a), ModelConfigJson(b));
  EXPECT_EQ(a.rope.type, RopeType::kLinear);
  EXPECT_EQ(a.rope.theta, 5e5);
  EXPECT_EQ(a.local_rope->type, RopeType::kDefault);
  EXPECT_EQ(a.local_rope->theta, 2e4);
  EXPECT_EQ(ModelConfigJson(ParseModelConfig(ModelConfigJson(a), "again").value()),
            ModelConfigJson(a));
  newer["rope_parameters"]["sliding_attention"]["rope_type"] = "dynamic";
  EXPECT_THAT(ParseModel(newer).status().message(),
              HasSubstr("rope_parameters: sliding_attention: \"rope_type\" is \"dynamic\""));
}

TEST(ModelConfig, WhatGemma3CanBeAndIsNotSupportedIsRefusedByKeyAndValue) {
  const std::pair<const char*, nlohmann::json> wrong[] = {{"attn_logit_softcapping", 50.0},
                                                          {"final_logit_softcapping", 30.5},
                                                          {"use_bidirectional_attention", true},
                                                          {"hidden_activation", "relu"}};
  for (const auto& [key, value] : wrong) {
    nlohmann::json json = Gemma();
    json[key] = value;
    const auto config = ParseModel(json);
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_THAT(config.status().message(), HasSubstr("m/config.json: \"" + std::string(key)));
    EXPECT_THAT(config.status().message(), HasSubstr(value.dump()));
  }
}

// What transformers 4 wrote of the same models.
TEST(ModelConfigGolden, TheOlderSpellingMeansTheSame) {
  size_t compared = 0;
  for (const std::string& dir : GoldenModels(SourceDir())) {
    const std::string path = dir + "/config.v4.json";
    if (!std::filesystem::exists(path)) continue;
    SCOPED_TRACE(path);
    const auto older = ParseModelConfig(ReadFileBounded(path, kConfigBytesMax).value(), path);
    ASSERT_TRUE(older.ok()) << older.status().ToString();
    EXPECT_EQ(ModelConfigJson(*older), ModelConfigJson(ReadModelConfig(dir).value()));
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "no config.v4.json: " << MissingSharedGolden(SourceDir());
}

TEST(ModelConfig, BrokenJsonSaysWhere) {
  EXPECT_THAT(ParseModelConfig("{\"a\": ", "x.json").status().message(),
              HasSubstr("x.json: not JSON"));
  EXPECT_THAT(ParseModelConfig("[]", "x.json").status().message(),
              HasSubstr("must be a JSON object"));
  EXPECT_EQ(ReadModelConfig("/nonexistent").status().code(), Code::kNotFound);
}

TEST(ModelConfig, LinearRopeDividesEveryFrequency) {
  ModelConfig config = ParseModel(BaseModel()).value();
  const RopeFrequencies plain = ComputeRopeFrequencies(config.rope, config.head_dim);
  ASSERT_EQ(plain.inverse.size(), 8u);
  EXPECT_FLOAT_EQ(plain.inverse[0], 1.0f);
  EXPECT_FLOAT_EQ(plain.inverse[4], 0.01f);
  config.rope.type = RopeType::kLinear;
  config.rope.factor = 4;
  EXPECT_FLOAT_EQ(ComputeRopeFrequencies(config.rope, config.head_dim).inverse[4], 0.0025f);
}

TEST(ModelConfig, Llama3RopeSlowsOnlyLongWaves) {
  ModelConfig config = ParseModel(BaseModel()).value();
  config.rope = {.type = RopeType::kLlama3,
                 .theta = 10000,
                 .factor = 8,
                 .original_max_position_embeddings = 256};
  const RopeFrequencies scaled = ComputeRopeFrequencies(config.rope, config.head_dim);
  EXPECT_FLOAT_EQ(scaled.inverse[0], 1.0f);               // wave 6.3 < 256/4
  EXPECT_FLOAT_EQ(scaled.inverse[7], 3.1622776e-4f / 8);  // wave 19869 > 256
  // Index 3: f = 10^-1.5, wave 198.7 between: smooth = (256/198.69 - 1) / 3.
  const double f = std::pow(10.0, -1.5);
  const double smooth = (256 / (2 * M_PI / f) - 1) / 3;
  EXPECT_NEAR(scaled.inverse[3], (1 - smooth) * f / 8 + smooth * f, 1e-8);
}

TEST(ModelConfig, YarnRopeBlendsAndScalesAttention) {
  ModelConfig config = ParseModel(BaseModel()).value();
  config.rope = {.type = RopeType::kYarn,
                 .theta = 10000,
                 .factor = 4,
                 .original_max_position_embeddings = 512};
  const RopeFrequencies scaled = ComputeRopeFrequencies(config.rope, config.head_dim);
  EXPECT_FLOAT_EQ(scaled.attention_scaling, static_cast<float>(0.1 * std::log(4.0) + 1));
  // The range is dimensions 0.81 and 3.82 of 8 pairs, rounded outwards to 0 and 4.
  EXPECT_FLOAT_EQ(scaled.inverse[0], 1.0f);
  EXPECT_NEAR(scaled.inverse[1], 0.31622776 * (0.75 + 0.25 / 4), 1e-7);
  EXPECT_NEAR(scaled.inverse[4], 0.01 / 4, 1e-9);
  config.rope.attention_factor = 1.5;
  EXPECT_FLOAT_EQ(ComputeRopeFrequencies(config.rope, config.head_dim).attention_scaling, 1.5f);
}

TEST(ModelConfig, ParameterCountCountsATiedEmbeddingOnce) {
  ModelConfig config = ParseModel(BaseModel()).value();
  const int64_t untied = config.ParameterCount();
  config.tie_word_embeddings = true;
  EXPECT_EQ(untied - config.ParameterCount(), 512 * 64);
}

TEST(ModelConfigGolden, EveryModelIsReadAndWrittenTheSame) {
  const auto models = GoldenModels(SourceDir());
  ASSERT_FALSE(models.empty());
  for (const std::string& dir : models) {
    SCOPED_TRACE(dir);
    const auto config = ReadModelConfig(dir);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    const std::string json = ModelConfigJson(*config);
    const auto again = ParseModelConfig(json, "again");
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(ModelConfigJson(*again), json);
    if (!std::filesystem::exists(dir + "/generation_config.json")) continue;
    const auto generation = ReadGenerationConfig(dir);
    ASSERT_TRUE(generation.ok()) << generation.status().ToString();
    EXPECT_FALSE(generation->eos_token_ids.empty());
  }
}

TEST(GenerationConfig, ReadsSeveralEndTokensAndSampling) {
  const auto config = ParseGenerationConfig(
      R"({"eos_token_id": [151645, 151643], "temperature": 0.6, "top_p": 0.95, "top_k": 20,
          "do_sample": true, "pad_token_id": -1})",
      "g");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_THAT(config->eos_token_ids, ElementsAre(151645, 151643));
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->temperature, 0.6);
  EXPECT_FALSE(config->pad_token_id);
  EXPECT_EQ(config->top_p, 0.95);
}

TEST(GenerationConfig, WrongFieldsAreRefusedByName) {
  for (const char* json : {R"({"top_p": 1.5})", R"({"temperature": -1})", R"({"top_k": "x"})",
                           R"({"eos_token_id": ["a"]})", R"({"eos_token_id": -2})"}) {
    const auto config = ParseGenerationConfig(json, "g.json");
    ASSERT_FALSE(config.ok()) << json;
    EXPECT_THAT(config.status().message(), HasSubstr("g.json: \""));
  }
}

}  // namespace
}  // namespace tidemill
