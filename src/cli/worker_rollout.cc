// tidemill worker rollout: an engine with the newest weights, and the episodes it writes.
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/worker.h"
#include "core/log.h"
#include "core/threads.h"
#include "core/topics.h"
#include "core/version.h"
#include "model/model_config.h"
#include "model/tokenizer.h"
#include "model/torch/model.h"
#include "rollout/protocol.h"
#include "rollout/rollout_loop.h"
#include "run/loop_metrics.h"
#include "run/role_options.h"
#include "run/stop_signal.h"
#include "weights/file_weights.h"
#include "weights/shm_weights.h"
#include "weights/torch/weight_codec.h"
#include "weights/weight_receiver.h"

namespace tidemill {
namespace {

// Follows the learner: the way its weights come, and whoever takes its place.
class WeightsWatch {
 public:
  WeightsWatch(SheetBoard board, const RunConfig& config, WeightReceiver& receiver)
      : board_(std::move(board)), config_(config), receiver_(receiver) {}

  // Shared memory where the learner's can be opened, else files. Not ok: neither can be.
  Status Follow(RunSheet sheet) {
    sheet_ = std::move(sheet);
    by_files_ = false;
    if (config_.bus.weights != "files") {
      Status why = NotFound("the learner is on another host or in another container");
      if (sheet_.shm_domain == ShmDomain() && !sheet_.shm.empty()) {
        auto source = OpenShmWeights(sheet_.shm, sheet_.incarnation);
        why = source.status();
        if (source.ok()) {
          receiver_.Follow(std::move(*source));
          LogInfo("weights come through shared memory", {{"from", sheet_.shm}});
          return Ok();
        }
      }
      if (config_.bus.weights == "shm") return why.WithContext("bus.weights = shm");
    }
    by_files_ = true;
    receiver_.Follow(NewFileWeightSource(sheet_.weights_folder));
    LogInfo("weights come through files", {{"from", sheet_.weights_folder}});
    return board_.AskForFiles();
  }

  // Looks whether there is another learner. Not ok: this worker cannot go on with it.
  Status Look(uint64_t version) {
    const Result<std::optional<RunSheet>> now = board_.Read();
    if (!now.ok() || !*now) return Ok();  // a learner that is away comes back; work goes on
    const RunSheet& sheet = **now;
    if (by_files_) (void)board_.AskForFiles();
    if (sheet.incarnation == sheet_.incarnation) return Ok();
    if (sheet.messages != kMessagesVersion)
      return Invalid("the learner now speaks version " + std::to_string(sheet.messages) +
                     " of the messages");
    if (sheet.version <= version)
      return Unavailable("run " + sheet.run + " began anew; start this worker again");
    LogInfo("another learner took over", {{"pid", sheet.pid}, {"host", sheet.host}});
    const Status followed = Follow(sheet);
    if (!followed.ok()) LogWarn("no way to the weights", {{"why", followed.message()}});
    return Ok();
  }

 private:
  SheetBoard board_;
  const RunConfig& config_;
  WeightReceiver& receiver_;
  RunSheet sheet_;
  bool by_files_ = false;
};

Result<DecodeOptions> ReadModel(const RunConfig& config) {
  DecodeOptions decode;
  TM_ASSIGN_OR_RETURN(decode.config, ReadModelConfig(config.model.path));
  if (config.learner.lora_rank > 0 || !config.model.adapter.empty()) {
    TM_ASSIGN_OR_RETURN(
        decode.base,
        PolicyWeights::Load(config.model.path, LoadOptions{.device = "cpu", .dtype = Dtype::kF32}));
  }
  return decode;
}

WorkerReport Report(const RolloutCounters& counters, const EngineThread& engine, Time now) {
  WorkerReport report;
  report.doing = std::to_string(counters.episodes_running) + " episodes, " +
                 std::to_string(counters.waiting_for_tools) + " at tools";
  report.busy = engine.busy().Busy(now);
  report.policy_version = engine.version();
  report.port = "engine";
  report.counts = {{"episodes", static_cast<double>(counters.finished)},
                   {"given_up", static_cast<double>(counters.given_up)},
                   {"tokens", static_cast<double>(counters.generated_tokens)},
                   {"tool_calls", static_cast<double>(counters.tool_calls)},
                   {"calls_lost", static_cast<double>(counters.calls_lost)},
                   {"retries", static_cast<double>(counters.tool_retries)},
                   {"skipped", static_cast<double>(counters.skipped)},
                   {"groups_lost", static_cast<double>(counters.groups_lost)}};
  report.rate_of = "tokens";
  report.levels = {{"running", static_cast<double>(counters.episodes_running)},
                   {"waiting_for_tools", static_cast<double>(counters.waiting_for_tools)}};
  return report;
}

}  // namespace

int RunRollout(Worker& worker, RunSheet sheet) {
  const RunConfig& config = worker.config;
  const Result<Tokenizer> tokenizer = Tokenizer::Read(config.model.path);
  if (!tokenizer.ok()) return Fail(tokenizer.status());
  std::string warning;
  const auto protocol = NewProtocol(config.model.protocol, *tokenizer, config.model.path,
                                    ProtocolOptionsFrom(config), &warning);
  if (!protocol.ok()) return Fail(protocol.status());
  if (!warning.empty()) LogWarn(warning);
  const Result<DecodeOptions> decode = ReadModel(config);
  if (!decode.ok()) return Fail(decode.status());

  WeightReceiver receiver([&](const WeightBlob& blob) { return DecodeWeights(blob, *decode); });
  auto board = SheetBoard::Connect(worker.beacon.url, worker.beacon.run, std::chrono::seconds(1));
  if (!board.ok()) return Fail(board.status());
  WeightsWatch watch(std::move(*board), config, receiver);
  if (Status status = watch.Follow(std::move(sheet)); !status.ok()) return Fail(status);
  std::optional<PublishedWeights> first;
  while (!first) {
    if (AskedToStop()) return 0;
    Result<PublishedWeights> came = receiver.WaitForFirst(std::chrono::seconds(1));
    if (came.ok()) first = std::move(*came);
    if (!first) (void)watch.Look(0);  // the learner may have been replaced before its first version
  }

  ThreadSettings settings;
  settings.engine = static_cast<int>(config.threads.engine);
  const ThreadPlan threads = PlanThreads(settings, AvailableCores());
  Result<EngineOptions> engine_options = EngineOptionsFrom(config, threads.engine);
  if (!engine_options.ok()) return Fail(engine_options.status());
  auto made =
      NewEngine(ToPolicyWeights(std::move(first->weights)), first->version, *engine_options);
  if (!made.ok()) return Fail(made.status());
  const int32_t max_context = (*made)->max_context();
  EngineThread engine(std::move(*made), receiver, worker.clock, EngineThreadOptionsFrom(config));
  RolloutOptions options = RolloutOptionsFrom(config, max_context);
  options.worker = worker.name();
  RolloutLoop loop(worker.bus, engine, **protocol, worker.clock, options);
  worker.metrics.AddSource([&](MetricSink& sink) { SinkRollout(loop.counters(), sink); });

  ServeLoopOptions serve;
  serve.report = [&] { return Report(loop.counters(), engine, worker.clock.Now()); };
  serve.watch = [&] { return watch.Look(engine.version()); };
  serve.own_topics = {InboxTopic(worker.name(), "rollout")};
  return ServeLoop(loop, worker, std::move(serve));
}

}  // namespace tidemill
