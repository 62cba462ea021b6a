#include "model/gguf/gguf_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "model/families/family_spec.h"

namespace tidemill {
namespace {

constexpr int64_t kSizeMax = 1 << 24;

// Numbers are stored in single precision: 1e-5 comes as 9.99999974e-06. The shortest decimal that
// means the same single is what the model's author wrote.
double ShortestDecimal(double stored) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(stored)).ptr;
  double value = stored;
  std::from_chars(text.data(), end, value);
  return value;
}

class GgufConfigReader {
 public:
  GgufConfigReader(GgufMetadata& metadata, const std::vector<GgufTensor>& tensors, std::string name)
      : metadata_(metadata), name_(std::move(name)) {
    for (const GgufTensor& tensor : tensors) tensors_.emplace(tensor.name, &tensor);
  }

  Result<ModelConfig> Read() {
    TM_RETURN_IF_ERROR(Family());
    Sizes();
    Experts();
    Rope();
    Tokens();
    TM_RETURN_IF_ERROR(metadata_.status());
    TM_RETURN_IF_ERROR(Llama3Rope());
    TM_RETURN_IF_ERROR(NothingElse());
    TM_RETURN_IF_ERROR(ValidateModelConfig(config_, name_));
    return config_;
  }

 private:
  std::string Key(const char* key) {
    const std::string whole = prefix_ + key;
    read_.insert(whole);
    return whole;
  }
  const GgufTensor* Tensor(const std::string& name) const {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : it->second;
  }

  Status Family() {
    const std::string architecture = metadata_.MaybeText("general.architecture").value_or("");
    std::string known;
    for (const ModelFamily family : AllFamilies()) {
      const GgufForm& form = SpecOf(family).gguf;
      if (form.architecture.empty()) continue;
      if (architecture != form.architecture) {
        if (form.refused.empty())
          known += (known.empty() ? "" : ", ") + std::string(form.architecture);
        continue;
      }
      if (!form.refused.empty()) {
        return Invalid(name_ + ": general.architecture \"" + architecture +
                       "\" is not supported: such a file " + std::string(form.refused));
      }
      config_.family = family;
      prefix_ = architecture + ".";
      return metadata_.status();
    }
    return Invalid(name_ + ": general.architecture \"" + architecture +
                   "\" is not supported; these are: " + known);
  }

  void Sizes() {
    config_.num_layers = metadata_.Int(Key("block_count"), 1, 100'000);
    config_.hidden_size = metadata_.Int(Key("embedding_length"), 1, kSizeMax);
    config_.intermediate_size = metadata_.Int(Key("feed_forward_length"), 1, kSizeMax);
    config_.num_heads = metadata_.Int(Key("attention.head_count"), 1, kSizeMax);
    config_.num_kv_heads =
        metadata_.MaybeInt(Key("attention.head_count_kv"), 1, kSizeMax).value_or(config_.num_heads);
    config_.max_position_embeddings = metadata_.Int(Key("context_length"), 1, int64_t{1} << 31);
    config_.head_dim = metadata_.MaybeInt(Key("attention.key_length"), 2, kSizeMax)
                           .value_or(config_.hidden_size / config_.num_heads);
    const int64_t values =
        metadata_.MaybeInt(Key("attention.value_length"), 2, kSizeMax).value_or(config_.head_dim);
    if (values != config_.head_dim) {
      metadata_.Fail(Key("attention.value_length"), "must equal attention.key_length");
    }
    const auto epsilon = metadata_.MaybeNumber(Key("attention.layer_norm_rms_epsilon"), 0, 1);
    if (!epsilon) metadata_.Fail(Key("attention.layer_norm_rms_epsilon"), "is missing");
    config_.rms_norm_eps = ShortestDecimal(epsilon.value_or(1e-6));
    config_.tie_word_embeddings = Tensor("output.weight") == nullptr;
    config_.qkv_bias = Tensor("blk.0.attn_q.bias") != nullptr;
    config_.output_bias = Tensor("blk.0.attn_output.bias") != nullptr;
    config_.mlp_bias = Tensor("blk.0.ffn_gate.bias") != nullptr;
    // One row a token; a file may name fewer tokens than it has rows.
    const GgufTensor* embedding = Tensor("token_embd.weight");
    if (embedding == nullptr || embedding->shape.size() != 2) {
      metadata_.Fail("tensor \"token_embd.weight\"", "is missing or not of two dimensions");
      return;
    }
    config_.vocab_size = embedding->shape[0];
    metadata_.MaybeInt(Key("vocab_size"), 1, config_.vocab_size);
  }

  // llama.cpp knows no layers without experts among those with, and in these families always scales
  // the weights of the chosen ones to sum 1.
  void Experts() {
    const auto count = metadata_.MaybeInt(Key("expert_count"), 0, 65535).value_or(0);
    const auto chosen = metadata_.MaybeInt(Key("expert_used_count"), 0, 65535).value_or(0);
    const auto width = metadata_.MaybeInt(Key("expert_feed_forward_length"), 1, kSizeMax);
    if (count == 0) return;
    // Mixtral's files have no architecture of their own.
    if (config_.family == ModelFamily::kLlama) config_.family = ModelFamily::kMixtral;
    if (!SpecOf(config_.family).experts.has) {
      metadata_.Fail(Key("expert_count"), "is not 0, and such a model has no experts");
      return;
    }
    config_.experts = {.count = count,
                       .chosen = chosen,
                       .width = width.value_or(config_.intermediate_size),
                       .normalized = true,
                       .layers = std::vector<bool>(static_cast<size_t>(config_.num_layers), true)};
    const std::string first = "blk.0.ffn_gate_exps.weight";
    if (Tensor(first) == nullptr) {
      metadata_.Fail("tensor \"" + first + "\"",
                     "is missing; files with a tensor for each expert are not supported");
    }
  }

  void Rope() {
    const auto rotated = metadata_.MaybeInt(Key("rope.dimension_count"), 0, kSizeMax);
    if (rotated && *rotated != config_.head_dim) {
      metadata_.Fail(Key("rope.dimension_count"), "must be the size of a head, " +
                                                      std::to_string(config_.head_dim) + ", got " +
                                                      std::to_string(*rotated));
    }
    RopeConfig& rope = config_.rope;
    rope.theta =
        ShortestDecimal(metadata_.MaybeNumber(Key("rope.freq_base"), 1, 1e12).value_or(10'000.0));
    const std::string type = metadata_.MaybeText(Key("rope.scaling.type")).value_or("none");
    const auto factor = metadata_.MaybeNumber(Key("rope.scaling.factor"), 1e-6, 1e6);
    const auto original =
        metadata_.MaybeInt(Key("rope.scaling.original_context_length"), 1, int64_t{1} << 31);
    const auto attention = metadata_.MaybeNumber(Key("rope.scaling.attn_factor"), 0, 1e6);
    const auto fast = metadata_.MaybeNumber(Key("rope.scaling.yarn_beta_fast"), 0, 1e6);
    const auto slow = metadata_.MaybeNumber(Key("rope.scaling.yarn_beta_slow"), 0, 1e6);
    metadata_.MaybeBool(Key("rope.scaling.finetuned"));
    // The older spelling of a linear scaling.
    const auto linear = metadata_.MaybeNumber(Key("rope.scale_linear"), 1e-6, 1e6);
    if (type == "none" && (!linear || *linear == 1.0)) return;
    rope.factor = ShortestDecimal(factor ? *factor : linear.value_or(1.0));
    if (type == "linear" || type == "none") {
      rope.type = RopeType::kLinear;
      return;
    }
    if (type != "yarn") {
      metadata_.Fail(Key("rope.scaling.type"),
                     "\"" + type + "\" is not supported; none, linear and yarn are");
      return;
    }
    rope.type = RopeType::kYarn;
    rope.original_max_position_embeddings = original.value_or(0);
    if (attention && *attention != 1.0) rope.attention_factor = ShortestDecimal(*attention);
    if (fast) rope.beta_fast = ShortestDecimal(*fast);
    if (slow) rope.beta_slow = ShortestDecimal(*slow);
  }

  void Tokens() {
    const auto id = [this](const char* key) -> std::optional<int32_t> {
      const auto value = metadata_.MaybeInt(key, 0, config_.vocab_size - 1);
      return value ? std::optional(static_cast<int32_t>(*value)) : std::nullopt;
    };
    if (config_.vocab_size < 1) return;
    config_.bos_token_id = id("tokenizer.ggml.bos_token_id");
    config_.pad_token_id = id("tokenizer.ggml.padding_token_id");
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                            "tokenizer.ggml.eom_token_id"}) {
      const auto end = id(key);
      auto& ends = config_.eos_token_ids;
      if (end && std::find(ends.begin(), ends.end(), *end) == ends.end()) ends.push_back(*end);
    }
  }

  // Llama 3's scaling comes as a divisor for each frequency. The numbers it was made from are not
  // in the file: those of the published models are tried.
  Status Llama3Rope() {
    const GgufTensor* factors = Tensor("rope_freqs.weight");
    if (factors == nullptr) return Ok();
    const auto pairs = static_cast<size_t>(config_.head_dim / 2);
    const std::string what = name_ + ": rope_freqs.weight ";
    if (factors->type != GgmlType::kF32 || config_.rope.type != RopeType::kDefault ||
        factors->elements() != static_cast<int64_t>(pairs)) {
      return Invalid(what + "does not fit the model: " + std::to_string(pairs) +
                     " F32 numbers are expected, and no other scaling");
    }
    std::vector<float> given(pairs);
    Dequantise(GgmlType::kF32, factors->data, given);
    const ModelConfig plain = config_;
    config_.rope.type = RopeType::kLlama3;
    config_.rope.factor = *std::max_element(given.begin(), given.end());
    config_.rope.original_max_position_embeddings = 8192;
    if (!(config_.rope.factor >= 1 && config_.rope.factor <= 1e6)) {
      return Invalid(what + "holds no scaling");
    }
    const RopeFrequencies unscaled = ComputeRopeFrequencies(plain.rope, plain.head_dim);
    const RopeFrequencies scaled = ComputeRopeFrequencies(config_.rope, config_.head_dim);
    for (size_t i = 0; i < pairs; ++i) {
      const float ours = unscaled.inverse[i] / scaled.inverse[i];
      if (!(std::abs(ours - given[i]) <= 1e-4f * given[i])) {
        return Invalid(what +
                       "is not Llama 3's scaling with low_freq_factor 1, high_freq_factor 4 and "
                       "original_max_position_embeddings 8192, the only one that is supported");
      }
    }
    return Ok();
  }

  // A key of the architecture that was not read changes the model in a way we do not know.
  Status NothingElse() {
    for (const char* harmless : {"tensor_data_layout", "attention.causal"}) Key(harmless);
    for (const auto& [key, value] : metadata_.values()) {
      if (key.starts_with(prefix_) && !read_.contains(key)) {
        return Invalid(name_ + ": " + key + " is not known");
      }
    }
    return Ok();
  }

  GgufMetadata& metadata_;
  std::string name_;
  std::string prefix_;
  std::map<std::string, const GgufTensor*, std::less<>> tensors_;
  std::set<std::string> read_;
  ModelConfig config_;
};

}  // namespace

Result<ModelConfig> GgufModelConfig(GgufMetadata& metadata, const std::vector<GgufTensor>& tensors,
                                    const std::string& name) {
  return GgufConfigReader(metadata, tensors, name).Read();
}

}  // namespace tidemill
