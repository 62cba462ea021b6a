#include <chrono>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <thread>

#include "bench/gpu_bench.h"
#include "core/mutex.h"
#include "core/random.h"
#include "engine/torch/torch_engine.h"
#include "learner/torch/trainer.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

constexpr uint64_t kGroup = 8;

// 12 layers of 768.
ModelConfig Small(ModelConfig config) {
  config.vocab_size = 4096;
  config.hidden_size = 768;
  config.intermediate_size = 3072;
  config.num_layers = 12;
  config.num_heads = 12;
  config.num_kv_heads = 12;
  return config;
}

// A finished episode that waits for its tool.
struct Waiting {
  double ready = 0;
  uint64_t episode = 0;
  bool operator<(const Waiting& other) const { return ready > other.ready; }
};

// The trainer on a thread of its own; the engine's thread gives batches and takes weights.
class TrainingThread {
 public:
  TrainingThread(std::unique_ptr<Trainer> trainer) : trainer_(std::move(trainer)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~TrainingThread() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  void Give(v1::Batch batch) {
    MutexLock lock(mutex_);
    batches_.push_back(std::move(batch));
    changed_.NotifyAll();
  }
  // The newest weights nobody took yet, or null.
  std::shared_ptr<const PolicyWeights> Take() {
    MutexLock lock(mutex_);
    return std::exchange(fresh_, nullptr);
  }
  uint64_t trained() {
    MutexLock lock(mutex_);
    return trained_;
  }
  Status status() {
    MutexLock lock(mutex_);
    return status_;
  }
  void WaitForMore(uint64_t trained, double seconds) {
    MutexLock lock(mutex_);
    changed_.WaitFor(lock, std::chrono::duration<double>(seconds),
                     [&]() TM_REQUIRES(mutex_) { return trained_ > trained || !status_.ok(); });
  }
  double busy() {
    MutexLock lock(mutex_);
    return busy_;
  }
  const std::vector<TrainReport>& reports() const { return reports_; }  // when all is trained

 private:
  void Run() {
    while (true) {
      v1::Batch batch;
      {
        MutexLock lock(mutex_);
        changed_.Wait(lock, [&]() TM_REQUIRES(mutex_) { return stop_ || !batches_.empty(); });
        if (stop_) return;
        batch = std::move(batches_.front());
        batches_.pop_front();
        batch.set_step(trained_);
      }
      const double begin = Now();
      Result<TrainReport> report = trainer_->Train(batch);
      auto weights = report.ok() ? trainer_->Snapshot() : report.status();
      MutexLock lock(mutex_);
      busy_ += Now() - begin;
      status_ = report.ok() ? weights.status() : report.status();
      if (status_.ok()) {
        fresh_ = *weights;
        ++trained_;
        reports_.push_back(*std::move(report));
        trainer_->NotePublished(trained_ + 1, trained_);
      }
      changed_.NotifyAll();
      if (!status_.ok()) return;
    }
  }

  std::unique_ptr<Trainer> trainer_;  // used by thread_
  Mutex mutex_;
  CondVar changed_;
  std::deque<v1::Batch> batches_ TM_GUARDED_BY(mutex_);               // as many as the gate lets be
  std::shared_ptr<const PolicyWeights> fresh_ TM_GUARDED_BY(mutex_);  // shared with the engine
  uint64_t trained_ TM_GUARDED_BY(mutex_) = 0;
  double busy_ TM_GUARDED_BY(mutex_) = 0;
  Status status_ TM_GUARDED_BY(mutex_);
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::vector<TrainReport> reports_;
  std::thread thread_;
};

class Loop {
 public:
  Loop(const GpuLoopLoad& load, const ModelConfig& config, Engine& engine, TrainingThread& training)
      : load_(load), config_(config), engine_(engine), training_(training), waits_(5) {}

  Status Run() {
    while (training_.trained() < Warming() + static_cast<uint64_t>(load_.batches)) {
      if (training_.trained() >= Warming() && begin_ == 0) Mark();
      TM_RETURN_IF_ERROR(training_.status());
      if (auto weights = training_.Take(); weights != nullptr) {
        TM_RETURN_IF_ERROR(
            engine_.SwapWeights(weights, training_.trained() + 1, CacheOnSwap::kKeep));
      }
      TM_RETURN_IF_ERROR(Admit());
      if (engine_.Work()) {
        const double begin = Now();
        TM_ASSIGN_OR_RETURN(const std::vector<TurnOutput> finished, engine_.Step());
        engine_busy_ += Now() - begin;
        for (const TurnOutput& turn : finished) TM_RETURN_IF_ERROR(Finish(turn));
      } else {
        training_.WaitForMore(training_.trained(), 1e-3);
      }
      Collect();
    }
    return Ok();
  }

  nlohmann::ordered_json Measured() {
    const double seconds = Now() - begin_;
    const double batches = static_cast<double>(training_.trained()) - marked_;
    double lag = 0, ess = 0;
    for (const TrainReport& report : training_.reports()) {
      lag += report.metrics.at("lag_mean");
      ess += report.metrics.at("ess");
    }
    const auto reports = static_cast<double>(training_.reports().size());
    return {{"bench", "grpo"},
            {"parameters", config_.ParameterCount()},
            {"batch", load_.batch},
            {"batches", batches},
            {"steps_ahead", load_.ahead},
            {"wait_median_s", load_.wait},
            {"seconds", seconds},
            {"generated_tokens_per_s", std::round(batches * load_.batch * load_.tokens / seconds)},
            {"engine_busy", (engine_busy_ - engine_marked_) / seconds},
            {"trainer_busy", (training_.busy() - trainer_marked_) / seconds},
            {"lag", lag / reports},
            {"ess", ess / reports}};
  }

 private:
  // Until what was asked for at the start is trained on, nothing is steady.
  uint64_t Warming() const { return static_cast<uint64_t>(load_.ahead) + 1; }
  void Mark() {
    begin_ = Now();
    marked_ = static_cast<double>(training_.trained());
    engine_marked_ = engine_busy_;
    trainer_marked_ = training_.busy();
  }

  Status Admit() {
    const uint64_t most = (training_.trained() + 1 + static_cast<uint64_t>(load_.ahead)) *
                          static_cast<uint64_t>(load_.batch);
    while (issued_ + kGroup <= most) {
      Random random(issued_);
      std::vector<TokenId> prompt;
      for (int p = 0; p < load_.prompt; ++p) {
        prompt.push_back(
            static_cast<TokenId>(random.Below(static_cast<uint64_t>(config_.vocab_size))));
      }
      for (uint64_t member = 0; member < kGroup; ++member) {
        SequenceStart start{.id = ++issued_};
        start.prompt = prompt;
        start.share_group = (issued_ - 1) / kGroup + 1;
        start.turn.max_new_tokens = load_.tokens;
        start.turn.seed = issued_;
        v1::Sample& sample = samples_[issued_];
        v1::Trajectory& trajectory = *sample.mutable_trajectory();
        trajectory.mutable_id()->set_task("bench");
        trajectory.mutable_id()->set_group(start.share_group);
        trajectory.mutable_id()->set_member(static_cast<uint32_t>(member));
        trajectory.mutable_id()->set_attempt(1);
        trajectory.mutable_sampling()->set_temperature(1.0);
        trajectory.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
        sample.mutable_verdict()->set_scored(true);
        sample.mutable_verdict()->set_reward(member % 2);
        TM_RETURN_IF_ERROR(engine_.Add(std::move(start)));
      }
    }
    return Ok();
  }

  Status Finish(const TurnOutput& turn) {
    v1::Turn& to = *samples_.at(turn.id).mutable_trajectory()->add_turns();
    to.mutable_ids()->Add(turn.ids.begin(), turn.ids.end());
    to.mutable_logprobs()->Add(turn.logprobs.begin(), turn.logprobs.end());
    for (const TokenVersionRun& run : turn.versions) {
      v1::VersionRun& version = *to.add_versions();
      version.set_version(run.version);
      version.set_tokens(run.tokens);
    }
    // Log-normal; one call in a thousand waits 30 times the median, none longer.
    const double sigma = std::log(30.0) / 3.09;
    const double wait = load_.wait * std::min(30.0, std::exp(sigma * waits_.Normal()));
    waiting_.push({Now() + (load_.wait > 0 ? wait : 0), turn.id});
    return engine_.Release(turn.id);
  }

  // Whole groups, in the order they were completed.
  void Collect() {
    const double now = Now();
    while (!waiting_.empty() && waiting_.top().ready <= now) {
      const uint64_t group = (waiting_.top().episode - 1) / kGroup;
      waiting_.pop();
      if (++done_[group] < kGroup) continue;
      done_.erase(group);
      for (uint64_t id = group * kGroup + 1; id <= (group + 1) * kGroup; ++id) {
        *batch_.add_samples() = std::move(samples_.at(id));
        samples_.erase(id);
      }
      if (batch_.samples_size() < load_.batch) continue;
      batch_.set_learner_version(training_.trained() + 1);
      training_.Give(std::exchange(batch_, v1::Batch()));
    }
  }

  const GpuLoopLoad& load_;
  const ModelConfig& config_;
  Engine& engine_;
  TrainingThread& training_;
  Random waits_;
  uint64_t issued_ = 0;
  std::map<uint64_t, v1::Sample> samples_;  // under way, by episode
  std::map<uint64_t, uint64_t> done_;       // members of a group that are done
  std::priority_queue<Waiting> waiting_;
  v1::Batch batch_;
  double begin_ = 0, marked_ = 0, engine_busy_ = 0, engine_marked_ = 0, trainer_marked_ = 0;
};

}  // namespace

Result<std::string> RunGpuLoopBench(const GpuLoopLoad& load) {
  GpuPolicy policy = load.policy;
  if (load.small) policy.config = Small(policy.config);
  const ModelConfig& config = policy.config;
  TM_ASSIGN_OR_RETURN(const auto weights, RandomGpuWeights(policy));
  EngineOptions engine_options;
  engine_options.max_context = load.prompt + load.tokens + 16;
  engine_options.max_running = static_cast<size_t>(load.running);
  engine_options.prefill_chunk = 4096;
  engine_options.cache_bytes = uint64_t{24} << 30;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, NewEngine(weights, 1, engine_options));
  TrainerOptions options;
  TM_ASSIGN_OR_RETURN(options.objective, ObjectivePreset("grpo"));
  options.objective.kl_coefficient = 0;
  options.schedule.peak = 1e-6;
  options.minibatches = 4;
  options.microbatch_tokens = int64_t{32} * 1024;
  options.bfloat16 = true;
  options.publish_dtype = Dtype::kBF16;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer, Trainer::New(weights, options));
  trainer->NotePublished(1, 0);
  TrainingThread training(std::move(trainer));
  Loop loop(load, config, *engine, training);
  TM_RETURN_IF_ERROR(loop.Run());
  return loop.Measured().dump();
}

}  // namespace tidemill
