#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#ifdef TIDEMILL_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include "bench/gpu_bench.h"
#include "bench/gpu_trace.h"
#include "core/random.h"
#include "engine/torch/torch_engine.h"
#include "learner/snapshot_gate.h"
#include "learner/torch/checkpoint.h"
#include "learner/torch/trainer.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

// What the engine writes to random prompts, half of it rewarded.
Result<v1::Batch> DrawBatch(const std::shared_ptr<const PolicyWeights>& weights,
                            const GpuLearnerLoad& load) {
  const ModelConfig& config = weights->config();
  EngineOptions options;
  options.max_context = load.length;
  options.max_running = static_cast<size_t>(load.sequences);
  options.prefill_chunk = 8192;
  const auto tokens = static_cast<uint64_t>(load.sequences * load.length);
  options.cache_bytes = tokens * CacheBytesOfToken(config) * 5 / 4 + (1 << 24);
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, NewEngine(weights, 1, options));
  Random random(11);
  v1::Batch batch;
  batch.set_learner_version(1);
  for (int i = 0; i < load.sequences; ++i) {
    SequenceStart start{.id = static_cast<uint64_t>(i) + 1};
    for (int p = 0; p < load.prompt; ++p) {
      start.prompt.push_back(
          static_cast<TokenId>(random.Below(static_cast<uint64_t>(config.vocab_size))));
    }
    start.turn.max_new_tokens = load.length - load.prompt - 1;
    start.turn.seed = static_cast<uint64_t>(i);
    v1::Sample& sample = *batch.add_samples();
    v1::Trajectory& trajectory = *sample.mutable_trajectory();
    trajectory.mutable_id()->set_task("bench");
    trajectory.mutable_id()->set_group(static_cast<uint64_t>(i / 8));
    trajectory.mutable_id()->set_member(static_cast<uint32_t>(i % 8));
    trajectory.mutable_id()->set_attempt(1);
    trajectory.mutable_sampling()->set_temperature(1.0);
    trajectory.mutable_prompt_ids()->Add(start.prompt.begin(), start.prompt.end());
    sample.mutable_verdict()->set_scored(true);
    sample.mutable_verdict()->set_reward(i % 2);
    TM_RETURN_IF_ERROR(engine->Add(std::move(start)));
  }
  while (engine->Work()) {
    TM_ASSIGN_OR_RETURN(const std::vector<TurnOutput> finished, engine->Step());
    for (const TurnOutput& turn : finished) {
      v1::Turn& to =
          *batch.mutable_samples(static_cast<int>(turn.id) - 1)->mutable_trajectory()->add_turns();
      to.mutable_ids()->Add(turn.ids.begin(), turn.ids.end());
      to.mutable_logprobs()->Add(turn.logprobs.begin(), turn.logprobs.end());
      v1::VersionRun& run = *to.add_versions();
      run.set_version(1);
      run.set_tokens(static_cast<uint32_t>(turn.ids.size()));
    }
  }
  return batch;
}

void ForgetPeak() {
#ifdef TIDEMILL_CUDA
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
#endif
}

double PeakGigabytes() {
#ifdef TIDEMILL_CUDA
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  return static_cast<double>(stats.allocated_bytes[0].peak) / 1e9;
#else
  return 0;
#endif
}

Result<TrainerOptions> OptionsOf(const GpuLearnerLoad& load) {
  TrainerOptions options;
  TM_ASSIGN_OR_RETURN(options.objective, ObjectivePreset("grpo"));
  options.objective.kl_coefficient = 0;
  options.schedule.peak = 1e-6;
  options.adamw.moments_in_blocks = load.moments_in_blocks;
  options.adamw.state_on_host = load.state_on_host;
  options.microbatch_tokens = load.token_budget;
  options.bfloat16 = true;
  options.recompute = load.recompute;
  options.product_most = load.product_most;
  options.reserve_multiprocessors = load.reserve_multiprocessors;
  options.publish_dtype = Dtype::kBF16;
  return options;
}

nlohmann::ordered_json Measured(const GpuLearnerLoad& load, std::map<std::string, double> first,
                                double step_tokens, double rate) {
  const GpuLimits limits = TrainLimits(load.policy, step_tokens, load.moments_in_blocks);
  return {{"bench", "learner"},
          {"shape", load.policy.shape},
          {"lora_rank", load.policy.lora_rank},
          {"sequences", load.sequences},
          {"length", load.length},
          {"recompute", load.recompute},
          {"moments", load.moments_in_blocks ? "int8" : "float32"},
          {"optimizer_state", load.state_on_host ? "host" : "gpu"},
          {"product_tflop", load.product_most / 1e12},
          {"reserve_multiprocessors", load.reserve_multiprocessors},
          {"tokens_per_s", std::round(rate)},
          {"limit_by_bytes", std::round(limits.by_bytes)},
          {"limit_by_arithmetic", std::round(limits.by_arithmetic)},
          {"share_of_790_tflops", rate / limits.by_arithmetic},
          {"mismatch_mean", first["mismatch"]},
          {"mismatch_p99", first["mismatch_p99"]},
          {"loss", first["loss"]},
          {"grad_norm", first["grad_norm"]},
          {"peak_gb", PeakGigabytes()}};
}

// A checkpoint of the trainer is copied to the host while it takes a step.
Result<nlohmann::ordered_json> CopyBesideAStep(Trainer& trainer, const v1::Batch& batch,
                                               CopyMemory& memory) {
  const RealClock clock;
  const Time began = clock.Now();
  const CheckpointContent content = ContentOf(trainer, {batch.step(), 1});
  TM_ASSIGN_OR_RETURN(CheckpointCopy copy, CheckpointCopy::Begin(content, memory));
  trainer.gate().Begin(clock);
  const Time requested = clock.Now();
  Status taken;
  Time copied = requested;
  Duration waited{};
  std::thread copying([&] {
    taken = copy.Take().status();
    waited = trainer.gate().Complete();
    copied = clock.Now();
  });
  const Result<TrainReport> report = trainer.Train(batch);
  copying.join();
  TM_RETURN_IF_ERROR(taken);
  TM_RETURN_IF_ERROR(report.status());
  return nlohmann::ordered_json{{"bytes", content.bytes()},
                                {"pause_s", Seconds(requested - began + waited)},
                                {"copy_s", Seconds(copied - requested)},
                                {"step_s", report->metrics.at("seconds")}};
}

// Two checkpoints, in memory that was touched before the first as a run does it.
Result<nlohmann::ordered_json> MeasureCheckpoints(Trainer& trainer, v1::Batch& batch) {
  CopyMemory memory;
  const double began = Now();
  memory.Reserve(ContentOf(trainer, {batch.step(), 1}).bytes());
  memory.Touch();
  const double touched = Now() - began;
  TM_ASSIGN_OR_RETURN(nlohmann::ordered_json result, CopyBesideAStep(trainer, batch, memory));
  batch.set_step(batch.step() + 1);
  TM_ASSIGN_OR_RETURN(result["second"], CopyBesideAStep(trainer, batch, memory));
  batch.set_step(batch.step() + 1);
  result["touch_s"] = touched;
  return result;
}

// Decode steps and swaps beside the trainer, with the rate of both.
Result<nlohmann::ordered_json> MeasureBoth(const GpuLearnerLoad& load, v1::Batch& batch,
                                           Trainer& trainer) {
  uint64_t step = batch.step();
  double seconds = 0, tokens = 0;
  const auto train = [&]() -> Status {
    batch.set_step(step++);
    TM_ASSIGN_OR_RETURN(const TrainReport report, trainer.Train(batch));
    seconds += report.metrics.at("seconds");
    tokens += report.metrics.at("computed_tokens");
    return trainer.Snapshot().status();
  };
  TM_ASSIGN_OR_RETURN(const std::string both, RunGpuPublishBench(load.policy, 256, train));
  nlohmann::ordered_json result = nlohmann::ordered_json::parse(both);
  result["learner_tokens_per_s"] = std::round(tokens / seconds);
  return result;
}

}  // namespace

Result<std::string> RunGpuLearnerBench(const GpuLearnerLoad& load) {
  TM_ASSIGN_OR_RETURN(auto weights, RandomGpuWeights(load.policy));
  TM_ASSIGN_OR_RETURN(v1::Batch batch, DrawBatch(weights, load));
  TM_ASSIGN_OR_RETURN(const TrainerOptions options, OptionsOf(load));
  ForgetPeak();
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, Trainer::New(weights, options));
  weights.reset();  // a trainer of all weights has its own
  trainer->NotePublished(1, 0);
  double seconds = 0, tokens = 0, steps = 0;
  std::map<std::string, double> first;
  std::string warning;  // the first step's, such as why there is no share
  nlohmann::ordered_json trace;
  for (int step = 0; step < load.steps; ++step) {
    batch.set_step(static_cast<uint64_t>(step));
    if (load.trace && step + 1 == load.steps) {
      BeginGpuTrace();
      TM_RETURN_IF_ERROR(trainer->Train(batch).status());
      TM_ASSIGN_OR_RETURN(trace, EndGpuTrace());
      break;
    }
    TM_ASSIGN_OR_RETURN(const TrainReport report, trainer->Train(batch));
    if (step == 0) {
      first = report.metrics;
      if (!report.warnings.empty()) warning = report.warnings.front();
    }
    if (step < 2) continue;
    seconds += report.metrics.at("seconds");
    tokens += report.metrics.at("computed_tokens");
    ++steps;
  }
  nlohmann::ordered_json result = Measured(load, first, tokens / steps, tokens / seconds);
  // Of the share that was granted; 0: all, also where none was.
  result["learner_multiprocessors"] = trainer->multiprocessors();
  if (!warning.empty()) result["warning"] = warning;
  result["token_budget"] =
      trainer->progress().token_budget > 0 ? trainer->progress().token_budget : load.token_budget;
  if (load.trace) result["trace"] = trace;
  batch.set_step(static_cast<uint64_t>(load.steps));
  TM_ASSIGN_OR_RETURN(result["checkpoint"], MeasureCheckpoints(*trainer, batch));
  if (load.publish) {
    TM_ASSIGN_OR_RETURN(result["publish"], MeasureBoth(load, batch, *trainer));
  }
  return result.dump();
}

}  // namespace tidemill
