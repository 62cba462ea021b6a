// Sliding windows in the engine: cached pages, shared prompts and rebuilt sequences give what the
// plain forward pass gives, whose mask is tested by itself.
#include "model/torch/aten.h"
#include "testing/engine_check.h"
#include "testing/tiny_config.h"

namespace tidemill {
namespace {

struct WindowCase {
  const char* name;
  ModelFamily family;
  int64_t window;
};

// Windows that end within a page, with it, and pages later; itself alone.
class EngineWindow : public testing::TestWithParam<WindowCase> {
 protected:
  static std::shared_ptr<const PolicyWeights> Weights() {
    ModelConfig config = TinyConfig(GetParam().family);
    config.num_layers = 3;
    TakeFormOf(GetParam().family, config);
    config.window = GetParam().window;
    config.head_dim = 10;
    config.max_position_embeddings = 256;
    config.initializer_range = 0.3;  // far from uniform, so that errors show
    return *PolicyWeights::NewRandom(config, 3);
  }
  static std::vector<TokenId> Prompt(size_t length, size_t first) {
    std::vector<TokenId> prompt(length);
    for (size_t i = 0; i < length; ++i) prompt[i] = static_cast<TokenId>((first + i * i * 7) % 37);
    return prompt;
  }
  // Keys and values of 3 layers, 2 heads, 16 positions: 10 numbers a key, 16 a value (padded).
  static uint64_t CacheBytes(uint64_t pages) { return pages * 3 * 2 * 16 * (10 + 16) * 4; }

  const std::shared_ptr<const PolicyWeights> weights_ = Weights();
};

TEST_P(EngineWindow, PromptsInPartsAndSingleTokensSeeTheirWindow) {
  EngineRun run(weights_, {.prefill_chunk = 9, .threads = 2});
  for (SequenceId id = 1; id <= 12; ++id) {
    run.Add(id, Prompt(3 + 7 * id, id), {.max_new_tokens = 25, .seed = id});
    if (id % 3 == 0) run.Step();
  }
  run.Finish();
  run.ExpectPlainLogprobs();
}

// One long prompt that both threads compute a part of.
TEST_P(EngineWindow, APromptThatThreadsShareSeesItsWindow) {
  EngineRun run(weights_, {.prefill_chunk = 200, .threads = 2});
  run.Add(1, Prompt(190, 5), {.max_new_tokens = 20, .seed = 1});
  run.Finish();
  run.ExpectPlainLogprobs();
}

TEST_P(EngineWindow, GroupsThatShareAPromptAndContinueSeeTheirWindow) {
  EngineRun run(weights_, {.prefill_chunk = 16});
  for (SequenceId id = 1; id <= 6; ++id) {
    run.Add(id, Prompt(44, 3), {.max_new_tokens = static_cast<int32_t>(5 + id), .seed = id}, 1);
  }
  run.Finish();
  EXPECT_LT(run.engine().Stats().prefill_tokens, 6u * 44u) << "the prompt is shared";
  run.ExpectPlainLogprobs();
  for (SequenceId id = 1; id <= 6; ++id) {
    run.Continue(id, Prompt(id, id), {.max_new_tokens = 9, .seed = id});
  }
  run.Finish();
  run.ExpectPlainLogprobs();
}

TEST_P(EngineWindow, EvictedSequencesAreRebuilt) {
  EngineRun run(weights_, {.max_context = 96, .cache_bytes = CacheBytes(9)});
  for (SequenceId id = 1; id <= 5; ++id) {
    run.Add(id, Prompt(45, id), {.max_new_tokens = 8, .seed = id});
    run.Finish();
  }
  EXPECT_GT(run.engine().Stats().evictions, 0u);
  for (SequenceId id = 1; id <= 5; ++id) {
    run.Continue(id, {3, 2, 1}, {.max_new_tokens = 8, .seed = id});
    run.Finish();
  }
  EXPECT_GT(run.engine().Stats().rebuilt_tokens, 0u);
  run.ExpectPlainLogprobs();
}

INSTANTIATE_TEST_SUITE_P(Windows, EngineWindow,
                         testing::Values(WindowCase{"OnEveryLayer", ModelFamily::kMistral, 12},
                                         WindowCase{"APage", ModelFamily::kMistral, 16},
                                         WindowCase{"OnSomeLayers", ModelFamily::kGemma3, 37},
                                         WindowCase{"ItselfAlone", ModelFamily::kGemma3, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tidemill
