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

#include "bus/broker.h"
#include "core/mutex.h"
#include "engine/torch/torch_engine.h"
#include "engine/weight_preparer.h"
#include "model/torch/model.h"
#include "weights/folder_place.h"
#include "weights/torch/weight_codec.h"
#include "weights/version_log.h"
#include "weights/weight_publisher.h"
#include "weights/weight_receiver.h"
#include "weights/weights_way.h"

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

// As an optimizer's step does it: every number, or one in a hundred.
void Change(TrainableModel& model, bool few, uint64_t version) {
  constexpr int64_t kOneIn = 100;
  const at::NoGradGuard no_gradient;
  for (const auto& [name, tensor] : model.parameters()) {
    at::Tensor flat = tensor.view({-1});
    if (few) flat = flat.slice(0, static_cast<int64_t>(version) % kOneIn, flat.numel(), kOneIn);
    flat.mul_(version % 2 == 0 ? 1.01 : 1 / 1.01);
  }
}

// `publish` is the learner's end, `take` the engine's.
Result<PublishWay> Measure(const std::string& name, const PublishBenchOptions& options,
                           TrainableModel& model, WeightChannel& publish, WeightChannel& take) {
  TM_ASSIGN_OR_RETURN(auto weights, model.Snapshot());
  EngineOptions engine_options;
  engine_options.max_context = 1024;
  engine_options.cache_bytes = uint64_t{1} << 30;
  TM_ASSIGN_OR_RETURN(auto engine, NewEngine(weights, 1, engine_options));
  Generation generation(std::move(engine), take, options.sequences);
  std::vector<double> first, snapshot, published;
  for (uint64_t version = 2; version < 2 + options.versions; ++version) {
    Change(model, name == "delta", version);
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

struct Across {
  const PublishBenchOptions& options;
  std::shared_ptr<const PolicyWeights> weights;  // published first
  TrainableModel& model;
  std::string folder;
  double copy_ms = 0;  // of a whole version
};

// From a publisher to a receiver, as between two processes.
Result<PublishWay> MeasureAcross(const Across& across, const std::string& name) {
  const PublishBenchOptions& options = across.options;
  const WeightsWay carried = name == "shm"      ? WeightsWay::kShm
                             : name == "broker" ? WeightsWay::kBus
                                                : WeightsWay::kFiles;
  const auto place = [url = options.bus] { return ConnectPlace(url, "bench-publish"); };
  const std::string folder = across.folder + "/" + name;
  WeightPublisher publisher(EncodeWeights, {.incarnation = 1, .folder = folder, .bus = place});
  if (carried != WeightsWay::kShm) publisher.Want(carried);
  TM_RETURN_IF_ERROR(publisher.Publish({1, 1, across.weights}));
  publisher.Flush();
  const DecodeOptions decode{across.model.config(), nullptr, "cpu"};
  WeightReceiver receiver([&](const WeightBlob& blob) { return DecodeWeights(blob, decode); });
  if (carried == WeightsWay::kShm) {
    TM_ASSIGN_OR_RETURN(auto source, OpenShmWeights(publisher.shm_location(), 1));
    receiver.Follow(std::move(source));
  } else if (carried == WeightsWay::kBus) {
    TM_ASSIGN_OR_RETURN(auto opened, place());
    receiver.Follow(NewVersionLogSource(std::move(opened)));
  } else {
    receiver.Follow(NewVersionLogSource(NewFolderPlace(folder)));
  }
  TM_ASSIGN_OR_RETURN(PublishWay way, Measure(name, options, across.model, publisher, receiver));
  publisher.Flush();
  const CarrierFigures figures = publisher.figures()[carried];
  way.bytes = static_cast<double>(figures.put.bytes);
  way.density = figures.put.density;
  way.copy_share = across.copy_ms / (1e3 * figures.seconds);
  return way;
}

Result<std::vector<std::string>> WaysToMeasure(const PublishBenchOptions& options,
                                               std::vector<std::string>& left_out) {
  std::vector<std::string> ways;
  const bool all = std::find(options.ways.begin(), options.ways.end(), "all") != options.ways.end();
  for (const char* way : kPublishWays) {
    const bool named =
        std::find(options.ways.begin(), options.ways.end(), way) != options.ways.end();
    if (!all && !named) continue;
    if (std::string_view(way) == "broker" && options.bus.empty()) {
      if (named) return Invalid("--bus: the way broker needs redis://HOST:PORT/DB");
      left_out.emplace_back("broker: needs --bus redis://HOST:PORT/DB");
      continue;
    }
    ways.emplace_back(way);
  }
  if (!all && ways.size() != options.ways.size()) {
    return Invalid("--ways: must be all, or of process, shm, files, broker and delta");
  }
  return ways;
}

}  // namespace

Result<PublishBenchReport> RunPublishBench(const PublishBenchOptions& options) {
  if (options.versions <= kWarm || options.hidden_size % 64 != 0) {
    return Invalid("more than 2 versions, and a width that 64 divides");
  }
  PublishBenchReport report;
  TM_ASSIGN_OR_RETURN(const std::vector<std::string> ways, WaysToMeasure(options, report.left_out));
  TM_ASSIGN_OR_RETURN(auto weights, PolicyWeights::NewRandom(BenchConfig(options), 1));
  TM_ASSIGN_OR_RETURN(auto model, TrainableModel::FromWeights(*weights));
  {
    TM_ASSIGN_OR_RETURN(const EncodedWeights encoded, EncodeWeights(*weights));
    report.bytes = encoded.parts->bytes();
  }
  report.copy_gb_per_s = CopySpeed(report.bytes);
  std::string folder =
      (options.folder.empty() ? std::filesystem::temp_directory_path().string() : options.folder) +
      "/tidemill-publish-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return Unavailable(folder + ": cannot make it");
  const Across across{options, weights, *model, folder,
                      static_cast<double>(report.bytes) / report.copy_gb_per_s / 1e6};
  Status status;
  for (const std::string& name : ways) {
    const auto local = NewLocalWeightChannel();
    Result<PublishWay> way = name == "process" ? Measure(name, options, *model, *local, *local)
                                               : MeasureAcross(across, name);
    status = way.status();
    if (!status.ok()) break;
    report.ways.push_back(std::move(*way));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!status.ok()) return status;
  return report;
}

std::string PublishBenchReport::ToText() const {
  std::string text = fmt::format(
      "weights of {:.1f} MB; a plain copy of them runs at {:.1f} GB/s\n\n{:<9} {:>10} {:>9} {:>12} "
      "{:>10} {:>10} {:>9} {:>8} {:>10}\n",
      static_cast<double>(bytes) / 1e6, copy_gb_per_s, "way", "MB sent", "changed", "first token",
      "snapshot", "publish", "pause", "step", "of a copy");
  for (const PublishWay& way : ways) {
    text += fmt::format(
        "{:<9} {:>10.2f} {:>8.1f}% {:>9.1f} ms {:>7.1f} ms {:>7.1f} ms {:>6.2f} ms {:>5.1f} ms ",
        way.name, way.bytes / 1e6, 100 * way.density, way.to_first_token_ms, way.snapshot_ms,
        way.publish_ms, way.pause_ms, way.step_ms);
    text += way.copy_share > 0 ? fmt::format("{:>8.1f} %\n", 100 * way.copy_share)
                               : fmt::format("{:>10}\n", "-");
  }
  for (const std::string& why : left_out) text += "left out: " + why + "\n";
  text.pop_back();
  return text;
}

std::string PublishBenchReport::ToJson() const {
  nlohmann::ordered_json json;
  json["bytes"] = bytes;
  json["copy_gb_per_s"] = copy_gb_per_s;
  json["ways"] = nlohmann::ordered_json::array();
  for (const PublishWay& way : ways) {
    json["ways"].push_back({{"name", way.name},
                            {"bytes", way.bytes},
                            {"density", way.density},
                            {"to_first_token_ms", way.to_first_token_ms},
                            {"snapshot_ms", way.snapshot_ms},
                            {"publish_ms", way.publish_ms},
                            {"pause_ms", way.pause_ms},
                            {"step_ms", way.step_ms},
                            {"copy_share", way.copy_share}});
  }
  json["left_out"] = left_out;
  return json.dump();
}

}  // namespace tidemill
