// The reference models as GGUF files, written here as llama.cpp's converter writes them, must come
// back as they were.
#include "model/gguf/gguf_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "model/families/family_spec.h"
#include "model/model_config.h"
#include "model/safetensors.h"
#include "model/tokenizer.h"
#include "model/tokenizer_config.h"
#include "testing/gguf_builder.h"
#include "testing/golden_models.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

constexpr char kTemplate[] = "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}";

std::vector<float> Numbers(const TensorView& tensor) {
  std::vector<float> numbers(tensor.bytes / sizeof(float));
  std::memcpy(numbers.data(), tensor.data, tensor.bytes);
  return numbers;
}

// The converter's own words: reshape (heads, 2, half, columns), swap the middle two.
std::vector<float> Interleaved(const std::vector<float>& rows, int64_t heads, int64_t head_dim) {
  std::vector<float> out(rows.size());
  const auto columns = static_cast<int64_t>(rows.size()) / (heads * head_dim);
  const int64_t half = head_dim / 2;
  int64_t to = 0;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t pair = 0; pair < half; ++pair) {
      for (int64_t side = 0; side < 2; ++side) {
        for (int64_t column = 0; column < columns; ++column) {
          const int64_t from = ((head * 2 + side) * half + pair) * columns + column;
          out[static_cast<size_t>(to++)] = rows[static_cast<size_t>(from)];
        }
      }
    }
  }
  return out;
}

std::string GgufName(std::string name, ModelFamily family) {
  // What stands before the feed-forward layers in other families stands behind attention here.
  if (family == ModelFamily::kOlmo2) {
    const size_t at = name.find("post_attention_layernorm");
    if (at != std::string::npos) name.replace(at, 24, "post_attention_norm");
  }
  const std::pair<const char*, const char*> parts[] = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers.", "blk."},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"mlp.gate.", "ffn_gate_inp."},
      {"block_sparse_moe.gate.", "ffn_gate_inp."},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
  };
  for (const auto& [ours, theirs] : parts) {
    const size_t at = name.find(ours);
    if (at != std::string::npos) name.replace(at, std::strlen(ours), theirs);
  }
  return name;
}

void AddMetadata(const std::string& dir, const ModelConfig& config, GgufBuilder& builder) {
  const bool mixtral = config.family == ModelFamily::kMixtral;
  const std::string family(mixtral ? "llama" : SpecOf(config.family).gguf.architecture);
  const auto put = [&](const char* key, int64_t value) {
    builder.Uint(family + "." + key, static_cast<uint32_t>(value));
  };
  builder.Text("general.architecture", family);
  put("block_count", config.num_layers);
  put("context_length", config.max_position_embeddings);
  put("embedding_length", config.hidden_size);
  put("feed_forward_length", config.intermediate_size);
  put("attention.head_count", config.num_heads);
  put("attention.head_count_kv", config.num_kv_heads);
  put("attention.key_length", config.head_dim);
  put("attention.value_length", config.head_dim);
  if (const ExpertsConfig& experts = config.experts; experts.count > 0) {
    put("expert_count", experts.count);
    put("expert_used_count", experts.chosen);
    if (!mixtral) put("expert_feed_forward_length", experts.width);
  }
  builder.Float(family + ".rope.freq_base", static_cast<float>(config.rope.theta));
  builder.Float(family + ".attention.layer_norm_rms_epsilon",
                static_cast<float>(config.rms_norm_eps));
  const auto tokenizer =
      nlohmann::json::parse(ReadFileBounded(dir + "/tokenizer.json", 1 << 24).value());
  const auto& vocab = tokenizer["model"]["vocab"];
  std::vector<std::string> tokens(static_cast<size_t>(config.vocab_size));
  std::vector<int32_t> types(tokens.size(), 5);
  for (size_t id = 0; id < tokens.size(); ++id) tokens[id] = "[PAD" + std::to_string(id) + "]";
  for (const auto& [token, id] : vocab.items()) {
    tokens[id.get<size_t>()] = token;
    types[id.get<size_t>()] = 1;
  }
  for (const auto& added : tokenizer["added_tokens"]) {
    tokens[added["id"].get<size_t>()] = added["content"];
    types[added["id"].get<size_t>()] = added["special"].get<bool>() ? 3 : 4;
  }
  std::vector<std::string> merges;
  for (const auto& merge : tokenizer["model"]["merges"]) {
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  builder.Text("tokenizer.ggml.model", "gpt2");
  const bool qwen = family.starts_with("qwen");
  builder.Text("tokenizer.ggml.pre", qwen ? "qwen2" : "smaug-bpe");
  builder.Texts("tokenizer.ggml.tokens", tokens).Ints("tokenizer.ggml.token_type", types);
  builder.Texts("tokenizer.ggml.merges", merges);
  builder.Uint("tokenizer.ggml.eos_token_id", 2).Uint("tokenizer.ggml.padding_token_id", 0);
  builder.Text("tokenizer.chat_template", kTemplate);
}

// The tensors from `first` on, every `step`-th.
void AddTensors(const std::string& dir, const ModelConfig& config, GgufBuilder& builder,
                size_t first = 0, size_t step = 1) {
  const TensorFiles files = TensorFiles::OpenModel(dir).value();
  for (size_t i = first; i < files.tensors().size(); i += step) {
    const TensorView& tensor = files.tensors()[i];
    if (tensor.name.find("experts.") != std::string::npos) continue;
    std::vector<float> numbers = Numbers(tensor);
    if (SpecOf(config.family).gguf.neighbours) {
      if (tensor.name.find("q_proj") != std::string::npos) {
        numbers = Interleaved(numbers, config.num_heads, config.head_dim);
      } else if (tensor.name.find("k_proj") != std::string::npos) {
        numbers = Interleaved(numbers, config.num_kv_heads, config.head_dim);
      }
    }
    builder.Floats(GgufName(tensor.name, config.family), {tensor.shape.begin(), tensor.shape.end()},
                   numbers);
  }
}

// The experts' matrices of each layer, those of one kind one behind the other.
void AddStackedExperts(const std::string& dir, const ModelConfig& config, GgufBuilder& builder) {
  const TensorFiles files = TensorFiles::OpenModel(dir).value();
  const DecoderPlan plan = PlanDecoder(config);
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const ExpertPlan& experts = plan.layers[static_cast<size_t>(layer)].experts;
    if (experts.count == 0) continue;
    const std::pair<std::string_view, const char*> parts[] = {{experts.gate, "ffn_gate_exps"},
                                                              {experts.up, "ffn_up_exps"},
                                                              {experts.down, "ffn_down_exps"}};
    for (const auto& [ours, theirs] : parts) {
      std::vector<float> all;
      std::vector<int64_t> shape;
      for (int64_t e = 0; e < experts.count; ++e) {
        const TensorView* one = files.Find(ExpertName(layer, experts, e, ours) + ".weight");
        const std::vector<float> numbers = Numbers(*one);
        all.insert(all.end(), numbers.begin(), numbers.end());
        shape = {experts.count, one->shape[0], one->shape[1]};
      }
      builder.Floats("blk." + std::to_string(layer) + "." + theirs + ".weight",
                     {shape.begin(), shape.end()}, all);
    }
  }
}

class GgufImport : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = directory_ / name;
    EXPECT_TRUE(WriteFileAtomically(path, bytes).ok());
    return path;
  }
  std::string WriteModel(const std::string& dir, const std::string& name) {
    const ModelConfig config = ReadModelConfig(dir).value();
    GgufBuilder builder;
    AddMetadata(dir, config, builder);
    AddTensors(dir, config, builder);
    AddStackedExperts(dir, config, builder);
    return Write(name, builder.Bytes());
  }
  std::string Refusal(const GgufBuilder& builder) {
    const auto imported = ImportGguf(Write("bad.gguf", builder.Bytes()), directory_ / "bad");
    EXPECT_FALSE(std::filesystem::exists(directory_ / "bad/config.json"));
    return imported.ok() ? "accepted" : imported.status().message();
  }
  void ExpectSameTensors(const std::string& dir, const std::string& out) {
    const TensorFiles before = TensorFiles::OpenModel(dir).value();
    const TensorFiles after = TensorFiles::OpenModel(out).value();
    ASSERT_EQ(before.tensors().size(), after.tensors().size());
    for (const TensorView& tensor : before.tensors()) {
      const TensorView* copy = after.Find(tensor.name);
      ASSERT_NE(copy, nullptr) << tensor.name;
      EXPECT_EQ(copy->shape, tensor.shape) << tensor.name;
      EXPECT_EQ(Numbers(*copy), Numbers(tensor)) << tensor.name;
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(GgufImport, EveryFamilyComesBackAsItWas) {
  for (const std::string& dir : GoldenModels(SourceDir())) {
    SCOPED_TRACE(dir);
    const GgufForm& form = SpecOf(ReadModelConfig(dir).value().family).gguf;
    if (form.architecture.empty() || !form.refused.empty()) continue;
    const std::string name = std::filesystem::path(dir).filename().string();
    const std::string out = directory_ / name;
    const auto imported = ImportGguf(WriteModel(dir, name + ".gguf"), out);
    ASSERT_TRUE(imported.ok()) << imported.status().ToString();
    const ModelConfig before = ReadModelConfig(dir).value();
    EXPECT_EQ(imported->parameters, before.ParameterCount());
    EXPECT_EQ(ModelConfigJson(ReadModelConfig(out).value()), ModelConfigJson(before));
    ExpectSameTensors(dir, out);
    const Tokenizer tokenizer = Tokenizer::Read(out).value();
    const auto cases =
        nlohmann::json::parse(ReadFileBounded(dir + "/tokenizer_cases.json", 1 << 26).value());
    for (const auto& c : cases) {
      EXPECT_EQ(tokenizer.Encode(c["text"].get<std::string>(), SpecialTokens::kRecognise),
                c["ids"].get<std::vector<TokenId>>());
    }
    const TokenizerConfig words = ReadTokenizerConfig(out).value();
    EXPECT_EQ(words.chat_template, kTemplate);
    EXPECT_EQ(words.eos_token, "<|im_end|>");
    EXPECT_EQ(ImportGguf(directory_ / (name + ".gguf"), out).status().code(), Code::kExists);
  }
}

// They come as "llama", and say nothing of a window.
TEST_F(GgufImport, MixtralIsLlamaWithExperts) {
  const std::string dir = SharedGoldenRoot(SourceDir()) + "/mixtral-tiny";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << MissingSharedGolden(SourceDir());
  const std::string without = directory_ / "without";
  std::filesystem::copy(dir, without);
  std::filesystem::permissions(without + "/config.json", std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  auto config = nlohmann::json::parse(ReadFileBounded(dir + "/config.json", 1 << 20).value());
  config["sliding_window"] = nullptr;
  ASSERT_TRUE(WriteFileAtomically(without + "/config.json", config.dump()).ok());
  const auto imported = ImportGguf(WriteModel(without, "m.gguf"), directory_ / "out");
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(ModelConfigJson(ReadModelConfig(directory_ / "out").value()),
            ModelConfigJson(ReadModelConfig(without).value()));
  ExpectSameTensors(without, directory_ / "out");
}

TEST_F(GgufImport, ASplitFileIsReadFromAnyOfItsParts) {
  const std::string dir = GoldenModels(SourceDir()).front();
  const ModelConfig config = ReadModelConfig(dir).value();
  for (uint32_t part = 0; part < 3; ++part) {
    GgufBuilder builder;
    if (part == 0) AddMetadata(dir, config, builder);
    builder.Uint("split.no", part).Uint("split.count", 3);
    AddTensors(dir, config, builder, part, 3);
    Write("m-0000" + std::to_string(part + 1) + "-of-00003.gguf", builder.Bytes());
  }
  const auto imported = ImportGguf(directory_ / "m-00002-of-00003.gguf", directory_ / "out",
                                   {.dtype = Dtype::kF32, .max_shard_bytes = 100'000});
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(imported->files, 3u);
  ExpectSameTensors(dir, directory_ / "out");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "out/model.safetensors"));  // in shards
  // The same tensors once more, in the second part.
  for (uint32_t part = 0; part < 2; ++part) {
    GgufBuilder builder;
    if (part == 0) AddMetadata(dir, config, builder);
    builder.Uint("split.no", part).Uint("split.count", 2);
    AddTensors(dir, config, builder, 0, 1);
    Write("twice-0000" + std::to_string(part + 1) + "-of-00002.gguf", builder.Bytes());
  }
  EXPECT_THAT(
      ImportGguf(directory_ / "twice-00001-of-00002.gguf", directory_ / "twice").status().message(),
      HasSubstr("comes in two of its parts"));
  std::filesystem::rename(directory_ / "m-00003-of-00003.gguf",
                          directory_ / "m-00004-of-00004.gguf");
  EXPECT_THAT(ImportGguf(directory_ / "m-00001-of-00003.gguf", directory_ / "b").status().message(),
              HasSubstr("m-00003-of-00003.gguf"));
  std::filesystem::rename(directory_ / "m-00004-of-00004.gguf", directory_ / "alone.gguf");
  EXPECT_THAT(ImportGguf(directory_ / "alone.gguf", directory_ / "b").status().message(),
              HasSubstr("its metadata say part 3 of 3"));
}

TEST_F(GgufImport, Bfloat16HalvesTheBytesAndSaysSo) {
  const std::string dir = GoldenModels(SourceDir()).front();
  const std::string out = directory_ / "half";
  ASSERT_TRUE(ImportGguf(WriteModel(dir, "m.gguf"), out, {.dtype = Dtype::kBF16}).ok());
  EXPECT_EQ(ReadModelConfig(out).value().dtype, Dtype::kBF16);
  const TensorFiles before = TensorFiles::OpenModel(dir).value();
  const TensorFiles after = TensorFiles::OpenModel(out).value();
  const TensorView* a = before.Find("model.embed_tokens.weight");
  const TensorView* b = after.Find("model.embed_tokens.weight");
  EXPECT_EQ(b->bytes * 2, a->bytes);
  for (size_t i = 0; i < 100; ++i) {
    uint32_t narrow = 0;
    std::memcpy(reinterpret_cast<char*>(&narrow) + 2, b->data + i * 2, 2);
    float number = 0;
    std::memcpy(&number, &narrow, sizeof(number));
    EXPECT_NEAR(number, Numbers(*a)[i], 0.004 * std::abs(Numbers(*a)[i]));
  }
}

TEST_F(GgufImport, WhatIsNotKnownIsRefusedByName) {
  const std::string dir = GoldenModels(SourceDir()).front();
  const ModelConfig config = ReadModelConfig(dir).value();
  const auto with = [&](const std::function<void(GgufBuilder&)>& change, size_t first = 0) {
    GgufBuilder builder;
    AddMetadata(dir, config, builder);
    AddTensors(dir, config, builder, first);
    change(builder);
    return Refusal(builder);
  };
  EXPECT_THAT(Refusal(GgufBuilder().Text("general.architecture", "gpt2")),
              HasSubstr("general.architecture \"gpt2\" is not supported; these are: llama, qwen2, "
                        "qwen3, olmo2"));
  EXPECT_THAT(Refusal(GgufBuilder().Text("general.architecture", "gemma3")),
              HasSubstr("\"gemma3\" is not supported: such a file does not say what queries are"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.Uint("llama.expert_count", 8); }),
              HasSubstr("\"blk.0.ffn_gate_exps.weight\" is missing"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.Uint("llama.rope.dimension_count", 6); }),
              HasSubstr("llama.rope.dimension_count must be the size of a head, 16"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.Text("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("\"longrope\" is not supported"));
  EXPECT_THAT(with([](GgufBuilder& b) {
                b.Floats("blk.0.attn_sinks.weight", {4}, {1, 2, 3, 4});
              }),
              HasSubstr("tensor \"blk.0.attn_sinks.weight\" is not known"));
  EXPECT_THAT(with([](GgufBuilder&) {}, 2), HasSubstr("is missing"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.Uint("tokenizer.ggml.bos_token_id", 4000); }),
              HasSubstr("tokenizer.ggml.bos_token_id must be a whole number from 0 to 511"));
}

TEST_F(GgufImport, TokenizersThatWouldBeWrongAreRefusedByName) {
  const std::string dir = GoldenModels(SourceDir()).front();
  ModelConfig config = ReadModelConfig(dir).value();
  const auto changed = [&](const std::string& from, const std::string& to) {
    GgufBuilder builder;
    AddMetadata(dir, config, builder);
    AddTensors(dir, config, builder);
    std::string bytes = builder.Bytes();
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos);
    bytes.replace(at, from.size(), to);
    const auto imported = ImportGguf(Write("bad.gguf", bytes), directory_ / "bad");
    return imported.ok() ? "accepted" : imported.status().message();
  };
  EXPECT_THAT(changed("smaug-bpe", "smaug-xyz"),
              HasSubstr("tokenizer.ggml.pre \"smaug-xyz\" is not supported; known are gpt-2"));
  EXPECT_THAT(changed("gpt2", "bert"), HasSubstr("tokenizer.ggml.model \"bert\""));
}

// Llama 3.1's divisors of the frequencies, as the converter computes them.
TEST_F(GgufImport, ScaledFrequenciesOfLlama3BecomeItsConfig) {
  const std::string dir = GoldenModels(SourceDir()).front();
  const ModelConfig config = ReadModelConfig(dir).value();
  const auto divisors = [&](double original) {
    std::vector<float> out;
    for (int64_t i = 0; i < config.head_dim; i += 2) {
      const double frequency = std::pow(
          config.rope.theta, -static_cast<double>(i) / static_cast<double>(config.head_dim));
      const double wavelength = 2 * M_PI / frequency;
      if (wavelength < original / 4) {
        out.push_back(1);
      } else if (wavelength > original) {
        out.push_back(8);
      } else {
        const double smooth = (original / wavelength - 1) / 3;
        out.push_back(static_cast<float>(1 / ((1 - smooth) / 8 + smooth)));
      }
    }
    return out;
  };
  const auto build = [&](double original) {
    GgufBuilder builder;
    AddMetadata(dir, config, builder);
    AddTensors(dir, config, builder);
    builder.Floats("rope_freqs.weight", {static_cast<uint64_t>(config.head_dim / 2)},
                   divisors(original));
    return builder;
  };
  const auto imported = ImportGguf(Write("l3.gguf", build(8192).Bytes()), directory_ / "l3");
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  const RopeConfig rope = ReadModelConfig(directory_ / "l3").value().rope;
  EXPECT_EQ(rope.type, RopeType::kLlama3);
  EXPECT_EQ(rope.factor, 8);
  EXPECT_THAT(Refusal(build(300)), HasSubstr("rope_freqs.weight is not Llama 3's scaling"));
}

}  // namespace
}  // namespace tidemill
