#include "testbeds/small_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files.h"

namespace tidemill {
namespace {

// Weights of another shape would be left beside the new config.
Status RefuseWeights(const std::string& folder) {
  std::error_code error;  // a folder that is not there has none
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors")
      return Exists(folder + " holds a model with weights; name another directory");
  }
  return Ok();
}

}  // namespace

Status WriteSmallModel(const SmallModel& model, const std::string& folder) {
  TM_RETURN_IF_ERROR(RefuseWeights(folder));
  using Json = nlohmann::ordered_json;
  const Json tokenizer = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                          {"eos_token", model.end},
                          {"pad_token", model.end},
                          {"add_bos_token", false},
                          {"chat_template", model.chat_template},
                          {"clean_up_tokenization_spaces", false}};
  const Json config = {{"architectures", {"Qwen2ForCausalLM"}},
                       {"model_type", "qwen2"},
                       {"vocab_size", model.vocabulary},
                       {"hidden_size", model.width},
                       {"intermediate_size", model.feed_forward},
                       {"num_hidden_layers", model.layers},
                       {"num_attention_heads", model.heads},
                       {"num_key_value_heads", model.heads},
                       {"max_position_embeddings", model.context},
                       {"hidden_act", "silu"},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 10000.0},
                       {"initializer_range", 0.05},
                       {"tie_word_embeddings", true},
                       {"attention_dropout", 0.0},
                       {"use_cache", true},
                       {"use_sliding_window", false},
                       {"eos_token_id", model.end_id},
                       {"pad_token_id", model.end_id},
                       {"torch_dtype", "float32"}};
  const Json generation = {{"do_sample", true},
                           {"temperature", 1.0},
                           {"eos_token_id", model.end_id},
                           {"pad_token_id", model.end_id}};
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  const auto write = [&](const char* name, const std::string& text) {
    return WriteFileAtomically(folder + "/" + name, text + "\n");
  };
  TM_RETURN_IF_ERROR(write("tokenizer.json", model.tokenizer));
  TM_RETURN_IF_ERROR(write("tokenizer_config.json", tokenizer.dump(1)));
  TM_RETURN_IF_ERROR(write("config.json", config.dump(1)));
  return write("generation_config.json", generation.dump(1));
}

}  // namespace tidemill
