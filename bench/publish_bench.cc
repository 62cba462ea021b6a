#include "bench/publish_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/mutex.h"
#include "engine/torch/torch_engine.h"
#include "engine/weight_preparer.h"
#include "model/torch/model.h"
#include "weights/folder_place.h"
#include "weights/torch/weight_codec.h"
#include "weights/version_log.h"
#include "weights/weight_publisher.h"
#include "weights/weight_receiver.h"

namespace tidemill {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint32_t kWarm = 2;  // versions not counted: memory touched for the first time

double Ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

ModelConfig BenchConfig(const PublishBenchOptions& options) {
  ModelConfig config;
  config.family = ModelFamily::kQwen2;
  config.vocab_size = 2000;
  config.hidden_size = options.hidden_size;
  config.intermediate_size = 3 * options.hidden_size;
  config.num_layers = options.layers;
  config.num_heads = config.num_kv_heads = 8;
  config.head_dim = options.hidden_size / 8;
  config.max_position_embeddings = 4096;
  config.qkv_bias = true;
  config.tie_word_embeddings = true;
  return config;
}

// Generates without end, on a thread of its own, taking weights between two steps as EngineThread
// does, and remembers when the first token of each version was there.
class Generation {
 public:
  Generation(std::unique_ptr<Engine> engine, WeightChannel& channel, uint32_t sequences)
      : engine_(std::move(engine)),
        preparer_(*engine_, channel),
        sequences_(sequences),
        thread_([this] { Run(); }) {}
  ~Generation() {
    stop_ = true;
    thread_.join();
  }

  Result<Clock::time_point> FirstToken(uint64_t version) {
    MutexLock lock(mutex_);
    const bool came = changed_.WaitFor(lock, std::chrono::seconds(60), [&]() TM_REQUIRES(mutex_) {
      return first_token_.count(version) != 0 || !failed_.ok();
    });
    if (!failed_.ok()) return failed_;
    if (!came) return Timeout("version " + std::to_string(version) + " was never sampled from");
    return first_token_[version];
  }
  std::vector<double> pauses() {
    MutexLock lock(mutex_);
    return pauses_;
  }
  double step_ms() {
    MutexLock lock(mutex_);
    return Median(steps_);
  }

 private:
  void Run() {
    for (uint32_t i = 0; i < sequences_; ++i) Begin();
    uint64_t version = engine_->Stats().version;
    while (!stop_) {
      const auto before = Clock::now();
      Result<WeightPreparer::Prepared> ready = preparer_.Take(version);
      const bool swap = ready.ok() && ready->weights != nullptr;
      if (swap) {
        version = ready->version;
        const Status swapped = engine_->SwapReady(
            *ready->weights, {.policy = PolicyId::kMain, .version = version}, CacheOnSwap::kKeep);
        if (!swapped.ok()) return Fail(swapped);
        preparer_.Discard(std::move(ready->weights));
      }
      const auto swapped = Clock::now();
      auto finished = engine_->Step();
      if (!finished.ok()) return Fail(finished.status());
      const auto after = Clock::now();
      for (const TurnOutput& turn : *finished) {
        (void)engine_->Release(turn.id);
        Begin();
      }
      MutexLock lock(mutex_);
      if (steps_.size() < 100000) steps_.push_back(Ms(after - swapped));
      if (!swap) continue;
      pauses_.push_back(Ms(swapped - before));
      first_token_[version] = after;
      changed_.NotifyAll();
    }
  }
  void Begin() {
    SequenceStart start;
    start.id = ++last_id_;
    start.prompt = {1, 2, 3};
    start.turn.max_new_tokens = 1000;
    start.turn.seed = last_id_;
    if (Status s = engine_->Add(std::move(start)); !s.ok()) Fail(s);
  }
  void Fail(const Status& status) {
    MutexLock lock(mutex_);
    failed_ = status;
    changed_.NotifyAll();
  }

  std::unique_ptr<Engine> engine_;
  WeightPreparer preparer_;
  const uint32_t sequences_;
  SequenceId last_id_ = 0;
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Clock::time_point> first_token_ TM_GUARDED_BY(mutex_);
  std::vector<double> pauses_, steps_ TM_GUARDED_BY(mutex_);
  Status failed_ TM_GUARDED_BY(mutex_);
  std::thread thread_;
};

// `publish` is the learner's end, `take` the engine's.
Result<PublishWay> Measure(const std::string& name, const PublishBenchOptions& options,
                           const TrainableModel& model, WeightChannel& publish,
                           WeightChannel& take) {
  TM_ASSIGN_OR_RETURN(auto weights, model.Snapshot());
  EngineOptions engine_options;
  engine_options.max_context = 1024;
  engine_options.cache_bytes = uint64_t{1} << 30;
  TM_ASSIGN_OR_RETURN(auto engine, NewEngine(weights, 1, engine_options));
  Generation generation(std::move(engine), take, options.sequences);
  std::vector<double> first, snapshot, published;
  for (uint64_t version = 2; version < 2 + options.versions; ++version) {
    const auto began = Clock::now();
    TM_ASSIGN_OR_RETURN(auto next, model.Snapshot());
    const auto copied = Clock::now();
    TM_RETURN_IF_ERROR(publish.Publish({version, version, std::move(next)}));
    const auto out = Clock::now();
    TM_ASSIGN_OR_RETURN(const auto token, generation.FirstToken(version));
    if (version < 2 + kWarm) continue;
    first.push_back(Ms(token - began));
    snapshot.push_back(Ms(copied - began));
    published.push_back(Ms(out - copied));
  }
  PublishWay way;
  way.name = name;
  way.to_first_token_ms = Median(first);
  way.snapshot_ms = Median(snapshot);
  way.publish_ms = Median(published);
  way.pause_ms = Median(generation.pauses());
  way.step_ms = generation.step_ms();
  return way;
}

double CopySpeed(size_t bytes) {
  WeightBuffer from(bytes), to(bytes);
  std::memset(from.data(), 1, bytes);
  std::memset(to.data(), 2, bytes);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    const auto began = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    times.push_back(Ms(Clock::now() - began));
  }
  return static_cast<double>(bytes) / Median(times) / 1e6;
}

}  // namespace

Result<PublishBenchReport> RunPublishBench(const PublishBenchOptions& options) {
  if (options.versions <= kWarm || options.hidden_size % 64 != 0) {
    return Invalid("more than 2 versions, and a width that 64 divides");
  }
  const ModelConfig config = BenchConfig(options);
  TM_ASSIGN_OR_RETURN(auto weights, PolicyWeights::NewRandom(config, 1));
  TM_ASSIGN_OR_RETURN(auto model, TrainableModel::FromWeights(*weights));
  PublishBenchReport report;
  {
    TM_ASSIGN_OR_RETURN(const EncodedWeights encoded, EncodeWeights(*weights));
    report.bytes = encoded.parts->bytes();
  }
  report.copy_gb_per_s = CopySpeed(report.bytes);
  const auto local = NewLocalWeightChannel();
  TM_ASSIGN_OR_RETURN(PublishWay in_process,
                      Measure("in process", options, *model, *local, *local));
  report.ways.push_back(in_process);

  const DecodeOptions decode{config, nullptr, "cpu"};
  std::string folder =
      (options.folder.empty() ? std::filesystem::temp_directory_path().string() : options.folder) +
      "/tidemill-publish-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return Unavailable(folder + ": cannot make it");
  const auto across = [&](const std::string& name, bool files) -> Status {
    WeightPublisher publisher(EncodeWeights, {.incarnation = 1, .folder = folder});
    if (files) publisher.Want(WeightsWay::kFiles);
    TM_RETURN_IF_ERROR(publisher.Publish({1, 1, weights}));
    WeightReceiver receiver([&](const WeightBlob& blob) { return DecodeWeights(blob, decode); });
    if (files) {
      receiver.Follow(NewVersionLogSource(NewFolderPlace(folder)));
    } else {
      TM_ASSIGN_OR_RETURN(auto source, OpenShmWeights(publisher.shm_location(), 1));
      receiver.Follow(std::move(source));
    }
    TM_ASSIGN_OR_RETURN(PublishWay way, Measure(name, options, *model, publisher, receiver));
    way.publish_share =
        static_cast<double>(report.bytes) / way.publish_ms / 1e6 / report.copy_gb_per_s;
    report.ways.push_back(way);
    return Ok();
  };
  Status status = across("shared memory", false);
  if (status.ok()) status = across("files", true);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!status.ok()) return status;
  return report;
}

std::string PublishBenchReport::ToText() const {
  std::string text = fmt::format("weights of {:.1f} MB; a plain copy of them runs at {:.1f} GB/s\n",
                                 static_cast<double>(bytes) / 1e6, copy_gb_per_s);
  for (const PublishWay& way : ways) {
    text += fmt::format(
        "  {:<14} first token after {:7.1f} ms (snapshot {:.1f}, publish {:.1f}); generation "
        "pauses "
        "{:.1f} ms, a step takes {:.1f} ms",
        way.name, way.to_first_token_ms, way.snapshot_ms, way.publish_ms, way.pause_ms,
        way.step_ms);
    if (way.publish_share > 0)
      text += fmt::format("; publishing at {:.0f} % of the copy", 100 * way.publish_share);
    text += "\n";
  }
  text.pop_back();
  return text;
}

std::string PublishBenchReport::ToJson() const {
  nlohmann::ordered_json json;
  json["bytes"] = bytes;
  json["copy_gb_per_s"] = copy_gb_per_s;
  for (const PublishWay& way : ways) {
    json["ways"].push_back({{"name", way.name},
                            {"to_first_token_ms", way.to_first_token_ms},
                            {"snapshot_ms", way.snapshot_ms},
                            {"publish_ms", way.publish_ms},
                            {"pause_ms", way.pause_ms},
                            {"step_ms", way.step_ms},
                            {"publish_share", way.publish_share}});
  }
  return json.dump();
}

}  // namespace tidemill
