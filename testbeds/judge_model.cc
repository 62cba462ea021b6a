#include "testbeds/judge_model.h"

#include <nlohmann/json.hpp>

#include "core/files.h"
#include "model/tokenizer_writer.h"
#include "testbeds/judge_cases.h"

namespace tidemill {
namespace {

using ModelJson = nlohmann::ordered_json;

constexpr const char* kJudgeEnd = "<|end|>";
// A number is one piece, with its sign: whether two numbers are the same is what a small judge has
// to see.
constexpr const char* kJudgePattern =
    R"(-?\p{N}+| ?\p{L}+| ?[^\s\p{L}\p{N}\-]+|-|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kJudgeTemplate = "{%- for m in messages -%}{{ m.content }}{%- endfor -%}";

ModelJson ConfigJson(const JudgeModelShape& shape, int64_t vocabulary, int64_t end) {
  return {{"architectures", {"Qwen2ForCausalLM"}},
          {"model_type", "qwen2"},
          {"vocab_size", vocabulary},
          {"hidden_size", shape.width},
          {"intermediate_size", 3 * shape.width},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.heads},
          {"max_position_embeddings", shape.context},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"initializer_range", 0.05},
          {"tie_word_embeddings", true},
          {"attention_dropout", 0.0},
          {"use_cache", true},
          {"use_sliding_window", false},
          {"eos_token_id", end},
          {"pad_token_id", end},
          {"torch_dtype", "float32"}};
}

}  // namespace

Status WriteJudgeModelFiles(const std::string& folder, const JudgeModelShape& shape,
                            std::string_view corpus) {
  if (shape.width < 8 || shape.heads < 1 || shape.width % shape.heads != 0 ||
      (shape.width / shape.heads) % 2 != 0) {
    return Invalid("the width must be at least 8 and an even multiple of the heads, got " +
                   std::to_string(shape.width) + " and " + std::to_string(shape.heads));
  }
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  TokenizerSpec spec = ByteTokenizerSpec({kJudgeEnd});
  spec.pattern = kJudgePattern;
  const int64_t end = 256;
  TM_RETURN_IF_ERROR(LearnMerges(corpus, shape.vocabulary, spec));
  TM_ASSIGN_OR_RETURN(const std::string tokenizer, TokenizerJson(spec));
  const auto write = [&](const char* name, std::string_view text) {
    return WriteFileAtomically(folder + "/" + name, text);
  };
  TM_RETURN_IF_ERROR(write("tokenizer.json", tokenizer));
  TM_RETURN_IF_ERROR(
      write("tokenizer_config.json", ModelJson{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                               {"eos_token", kJudgeEnd},
                                               {"pad_token", kJudgeEnd},
                                               {"add_bos_token", false},
                                               {"chat_template", kJudgeTemplate},
                                               {"clean_up_tokenization_spaces", false}}
                                         .dump(1)));
  TM_RETURN_IF_ERROR(write(
      "config.json", ConfigJson(shape, static_cast<int64_t>(spec.tokens.size()), end).dump(1)));
  return write(
      "generation_config.json",
      ModelJson{
          {"do_sample", true}, {"temperature", 1.0}, {"eos_token_id", end}, {"pad_token_id", end}}
          .dump(1));
}

Status WriteJudgeModel(const JudgeModelShape& shape, uint64_t seed, const std::string& folder) {
  constexpr int kCases = 2000;
  std::string corpus;
  for (const char* task : {"next_state", "process"}) {
    JudgeCaseWriter writer(
        {.seed = seed, .instructing = 0.1, .task = task, .demonstrations = true});
    for (int i = 0; i < kCases; ++i) {
      const auto line = nlohmann::json::parse(writer.Next());
      corpus += line["prompt"].get<std::string>() + line["completion"].get<std::string>() + "\n";
    }
  }
  return WriteJudgeModelFiles(folder, shape, corpus);
}

}  // namespace tidemill
