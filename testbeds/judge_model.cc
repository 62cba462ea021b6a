#include "testbeds/judge_model.h"

#include <nlohmann/json.hpp>

#include "model/tokenizer_writer.h"
#include "testbeds/judge_cases.h"
#include "testbeds/small_model.h"

namespace tidemill {
namespace {

constexpr const char* kJudgeEnd = "<|end|>";
// A number is one piece, with its sign: whether two numbers are the same is what a small judge has
// to see.
constexpr const char* kJudgePattern =
    R"(-?\p{N}+| ?\p{L}+| ?[^\s\p{L}\p{N}\-]+|-|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kJudgeTemplate = "{%- for m in messages -%}{{ m.content }}{%- endfor -%}";

}  // namespace

Status WriteJudgeModelFiles(const std::string& folder, const JudgeModelShape& shape,
                            std::string_view corpus) {
  if (shape.width < 8 || shape.heads < 1 || shape.width % shape.heads != 0 ||
      (shape.width / shape.heads) % 2 != 0) {
    return Invalid("the width must be at least 8 and an even multiple of the heads, got " +
                   std::to_string(shape.width) + " and " + std::to_string(shape.heads));
  }
  TokenizerSpec spec = ByteTokenizerSpec({kJudgeEnd});
  spec.pattern = kJudgePattern;
  TM_RETURN_IF_ERROR(LearnMerges(corpus, shape.vocabulary, spec));
  TM_ASSIGN_OR_RETURN(const std::string tokenizer, TokenizerJson(spec));
  return WriteSmallModel({.tokenizer = tokenizer,
                          .chat_template = kJudgeTemplate,
                          .end = kJudgeEnd,
                          .end_id = 256,
                          .vocabulary = static_cast<int64_t>(spec.tokens.size()),
                          .width = shape.width,
                          .feed_forward = 3 * shape.width,
                          .layers = shape.layers,
                          .heads = shape.heads,
                          .context = shape.context},
                         folder);
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
