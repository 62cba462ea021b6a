#include "bench/learner_bench.h"

#include "model/torch/aten.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <time.h>

#include <nlohmann/json.hpp>

#include "core/random.h"
#include "learner/torch/policy_scorer.h"
#include "learner/torch/trainer.h"
#include "model/torch/catch.h"

namespace tidemill {
namespace {

// The thread's own processor time, so that a busy machine does not decide the rates; with several
// threads the wall clock.
double Now(int threads) {
  timespec now{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Runs `work` for about `seconds` after once to warm up; how often it ran in a second.
template <typename Work>
double RatePerSecond(const LearnerBenchOptions& options, Work&& work) {
  work();
  const double began = Now(options.threads);
  double rounds = 0;
  while (Now(options.threads) - began < options.seconds || rounds == 0) {
    work();
    rounds += 1;
  }
  return rounds / (Now(options.threads) - began);
}

// Random episodes: groups with one prompt, answers of different length.
v1::Batch MakeBatch(const LearnerBenchOptions& o) {
  Random random(o.seed);
  v1::Batch batch;
  batch.set_learner_version(1);
  const auto vocabulary = static_cast<uint64_t>(o.config.vocab_size);
  for (uint64_t group = 0; group < o.groups; ++group) {
    std::vector<uint32_t> prompt(o.prompt_tokens);
    for (uint32_t& id : prompt) id = static_cast<uint32_t>(random.Below(vocabulary));
    for (uint32_t member = 0; member < o.members; ++member) {
      v1::Sample& sample = *batch.add_samples();
      v1::Trajectory& trajectory = *sample.mutable_trajectory();
      trajectory.mutable_id()->set_group(group);
      trajectory.mutable_id()->set_member(member);
      trajectory.mutable_sampling()->set_temperature(1.0);
      trajectory.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
      v1::Turn& turn = *trajectory.add_turns();
      const auto length = random.Between(1, 2 * int64_t{o.answer_tokens} - 1);
      for (int64_t i = 0; i < length; ++i) {
        turn.add_ids(static_cast<uint32_t>(random.Below(vocabulary)));
        turn.add_logprobs(-static_cast<float>(random.Uniform()) * 10);
      }
      turn.add_versions()->set_version(1);
      turn.mutable_versions(0)->set_tokens(static_cast<uint32_t>(length));
      sample.mutable_verdict()->set_scored(true);
      sample.mutable_verdict()->set_reward(random.Uniform());
    }
  }
  return batch;
}

// The gate and up projection of a microbatch, the largest product there is in a layer.
double MeasureGemm(const LearnerBenchOptions& o) {
  const at::NoGradGuard no_grad;
  const int64_t rows = o.microbatch_tokens, in = o.config.hidden_size,
                out = 2 * o.config.intermediate_size;
  const at::Tensor x = at::randn({rows, in}), w = at::randn({out, in});
  at::Tensor y = at::empty({rows, out});
  const double rate = RatePerSecond(o, [&] { at::mm_out(y, x, w.t()); });
  return rate * 2 * static_cast<double>(rows * in * out) / 1e9;
}

struct StepRate {
  double tokens = 0;
  double computed = 0;
};

Result<StepRate> MeasureSteps(const LearnerBenchOptions& o,
                              const std::shared_ptr<const PolicyWeights>& weights,
                              const v1::Batch& batch, bool fused, bool exact = false) {
  TrainerOptions options;
  options.objective = *ObjectivePreset("tis");
  options.schedule.peak = 1e-5;
  options.microbatch_tokens = o.microbatch_tokens;
  options.fused = fused;
  options.exact = exact;
  TM_ASSIGN_OR_RETURN(auto trainer, Trainer::New(weights, options));
  Status failed;
  std::map<std::string, double> metrics;
  const double rate = RatePerSecond(o, [&] {
    auto report = trainer->Train(batch);
    if (report.ok()) {
      metrics = std::move(report->metrics);
    } else {
      failed = report.status();
    }
  });
  TM_RETURN_IF_ERROR(failed);
  return StepRate{rate * metrics.at("sequence_tokens"), rate * metrics.at("computed_tokens")};
}

// Each row with a prompt of its own, as in supervised training.
Result<double> MeasureWarmup(const LearnerBenchOptions& o, const PolicyWeights& weights,
                             const v1::Batch& batch) {
  TM_ASSIGN_OR_RETURN(auto model, TrainableModel::FromWeights(weights));
  PolicyScorer scorer(std::move(model), {});
  AdamW optimizer({});
  std::vector<TrainSequence> rows;
  std::vector<int32_t> chosen;
  double tokens = 0;
  Random random(o.seed + 1);
  for (const v1::Sample& sample : batch.samples()) {
    TM_ASSIGN_OR_RETURN(TrainSequence row, Flatten(sample, {}));
    for (size_t i = 0; i < row.prompt_tokens; ++i) {
      row.ids[i] = static_cast<int32_t>(random.Below(static_cast<uint64_t>(o.config.vocab_size)));
    }
    tokens += static_cast<double>(row.ids.size());
    chosen.push_back(static_cast<int32_t>(rows.size()));
    rows.push_back(std::move(row));
  }
  const std::vector<std::vector<double>> advantages(rows.size(), {0.0});
  const double rate = RatePerSecond(o, [&] {
    for (const Microbatch& part : PackMicrobatches(rows, advantages, chosen, o.microbatch_tokens)) {
      ZeroGrad(scorer.leaves());
      const PolicyScores scores =
          scorer.Score(MakeMicroTensors(part, scorer.fused(), scorer.device()), true);
      scorer.Backward(-scores.logprobs.mean(), scores);
      optimizer.Step(scorer.leaves(), 1e-5, 1.0 / (1.0 + GradNorm(scorer.leaves())));
    }
  });
  return rate * tokens;
}

Result<LearnerBenchReport> Measure(const LearnerBenchOptions& options) {
  TM_ASSIGN_OR_RETURN(const auto weights, PolicyWeights::NewRandom(options.config, options.seed));
  const v1::Batch batch = MakeBatch(options);
  LearnerBenchReport report;
  report.kernels = ChooseTrainKernels().name;
  report.parameters = static_cast<uint64_t>(options.config.ParameterCount());
  report.gemm_gflops = MeasureGemm(options);
  report.limit_tokens_per_second =
      report.gemm_gflops * 1e9 / (6 * static_cast<double>(report.parameters));
  TM_ASSIGN_OR_RETURN(report.warmup_tokens_per_second, MeasureWarmup(options, *weights, batch));
  TM_ASSIGN_OR_RETURN(const StepRate step, MeasureSteps(options, weights, batch, true));
  TM_ASSIGN_OR_RETURN(const StepRate plain, MeasureSteps(options, weights, batch, false));
  report.warmup_utilisation = report.warmup_tokens_per_second / report.limit_tokens_per_second;
  report.step_tokens_per_second = step.tokens;
  report.step_computed_tokens_per_second = step.computed;
  report.step_utilisation = step.computed / report.limit_tokens_per_second;
  report.autograd_tokens_per_second = plain.tokens;
  report.speedup = step.tokens / plain.tokens;
  TM_ASSIGN_OR_RETURN(const StepRate exact, MeasureSteps(options, weights, batch, true, true));
  report.exact_tokens_per_second = exact.tokens;
  return report;
}

}  // namespace

ModelConfig SmallModelConfig() {
  ModelConfig c;
  c.family = ModelFamily::kQwen3;
  c.vocab_size = 160;
  c.hidden_size = 64;
  c.intermediate_size = 192;
  c.num_layers = 3;
  c.num_heads = 4;
  c.num_kv_heads = 4;
  c.head_dim = 16;
  c.max_position_embeddings = 512;
  c.tie_word_embeddings = true;
  return c;
}

Result<LearnerBenchReport> RunLearnerBench(LearnerBenchOptions options) {
  if (options.config.vocab_size == 0) options.config = SmallModelConfig();
  TM_RETURN_IF_ERROR(ValidateModelConfig(options.config, "the bench's model"));
  if (options.groups == 0 || options.members == 0 || options.prompt_tokens == 0 ||
      options.answer_tokens == 0 || options.microbatch_tokens < 1 || options.threads < 1 ||
      !(options.seconds > 0)) {
    return Invalid("every number of the learner's bench must be above 0");
  }
  at::set_num_threads(options.threads);
  return CatchTorch<LearnerBenchReport>("the learner's bench", [&] { return Measure(options); });
}

std::string LearnerBenchReport::ToText() const {
  return fmt::format(
      "model                 {} parameters, kernels {}\n"
      "matrix products       {:.1f} GFLOP/s alone: a limit of {:.0f} tokens/s\n"
      "supervised            {:.0f} tokens/s, {:.0f} % of the limit\n"
      "GRPO step             {:.0f} tokens/s; prompts shared, {:.0f} computed, {:.0f} % of the "
      "limit\n"
      "through autograd      {:.0f} tokens/s: {:.1f} times slower\n"
      "engine.exact          {:.0f} tokens/s: {:.2f} of the step\n",
      parameters, kernels, gemm_gflops, limit_tokens_per_second, warmup_tokens_per_second,
      100 * warmup_utilisation, step_tokens_per_second, step_computed_tokens_per_second,
      100 * step_utilisation, autograd_tokens_per_second, speedup, exact_tokens_per_second,
      exact_tokens_per_second / step_tokens_per_second);
}

std::string LearnerBenchReport::ToJson() const {
  return nlohmann::json{{"kernels", kernels},
                        {"parameters", parameters},
                        {"gemm_gflops", gemm_gflops},
                        {"limit_tokens_per_second", limit_tokens_per_second},
                        {"warmup_tokens_per_second", warmup_tokens_per_second},
                        {"warmup_utilisation", warmup_utilisation},
                        {"step_tokens_per_second", step_tokens_per_second},
                        {"step_computed_tokens_per_second", step_computed_tokens_per_second},
                        {"step_utilisation", step_utilisation},
                        {"autograd_tokens_per_second", autograd_tokens_per_second},
                        {"speedup", speedup},
                        {"exact_tokens_per_second", exact_tokens_per_second}}
      .dump();
}

}  // namespace tidemill
