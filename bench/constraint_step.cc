#include "bench/constraint_step.h"

#include "model/torch/aten.h"

#include <time.h>

#include <algorithm>
#include <memory>

#include "engine/torch/torch_engine.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

constexpr int kRounds = 2;

double ProcessMs() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

ModelConfig SmolConfig(int32_t vocabulary) {
  ModelConfig config;
  config.family = ModelFamily::kLlama;
  config.vocab_size = vocabulary;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.num_layers = 30;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  config.max_position_embeddings = 1024;
  config.tie_word_embeddings = true;
  return config;
}

// The mean of the steps in which all sequences decode.
Result<double> StepMs(Engine& engine, const std::shared_ptr<const Constraint>& constraint,
                      const ConstraintStepOptions& options) {
  for (int i = 0; i < options.sequences; ++i) {
    SequenceStart start{.id = static_cast<SequenceId>(i + 1), .prompt = {1, 2, 3}};
    start.turn.max_new_tokens = options.tokens;
    start.turn.seed = options.seed + static_cast<uint64_t>(i);
    start.turn.controls.constraint = constraint;
    if (constraint) start.turn.stop_ids = constraint->vocabulary->ends();
    TM_RETURN_IF_ERROR(engine.Add(std::move(start)));
  }
  const uint64_t first = engine.Stats().generated_tokens + static_cast<uint64_t>(options.sequences);
  while (engine.Stats().generated_tokens < first) TM_RETURN_IF_ERROR(engine.Step().status());
  const uint64_t before = engine.Stats().steps;
  const double begin = ProcessMs();
  while (engine.Work()) TM_RETURN_IF_ERROR(engine.Step().status());
  const double took = ProcessMs() - begin;
  const uint64_t steps = engine.Stats().steps - before;
  for (int i = 0; i < options.sequences; ++i) {
    TM_RETURN_IF_ERROR(engine.Release(static_cast<SequenceId>(i + 1)));
  }
  return took / static_cast<double>(std::max<uint64_t>(steps, 1));
}

}  // namespace

Result<ConstraintStepReport> MeasureConstraintStep(
    const std::shared_ptr<const Constraint>& constraint, const ConstraintStepOptions& options) {
  return CatchTorch<ConstraintStepReport>(
      "constraint bench", [&]() -> Result<ConstraintStepReport> {
        const int32_t vocabulary = (constraint->vocabulary->size() + 63) / 64 * 64;
        TM_ASSIGN_OR_RETURN(const auto weights,
                            PolicyWeights::NewRandom(SmolConfig(vocabulary), options.seed));
        TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                            NewEngine(weights, 1, {.max_context = 256}));
        ConstraintStepReport report;
        for (int round = 0; round < kRounds; ++round) {
          TM_ASSIGN_OR_RETURN(const double plain, StepMs(*engine, nullptr, options));
          TM_ASSIGN_OR_RETURN(const double held, StepMs(*engine, constraint, options));
          report.plain_ms = round == 0 ? plain : std::min(report.plain_ms, plain);
          report.held_ms = round == 0 ? held : std::min(report.held_ms, held);
        }
        return report;
      });
}

}  // namespace tidemill
