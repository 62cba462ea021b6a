// tidemill worker ROLE: one role of a run alone, on Redis Streams. Joins and leaves at any time; on
// SIGTERM it takes nothing new, finishes or gives back what it holds, and leaves.
#include <unistd.h>

#include <memory>
#include <thread>

#include "bus/redis/redis_roster.h"
#include "bus/standard_topics.h"
#include "cli/commands.h"
#include "cli/fleet_account.h"
#include "cli/make_scorers.h"
#include "cli/role_options.h"
#include "cli/stop_signal.h"
#include "cli/worker.h"
#include "core/log.h"
#include "core/loop_runner.h"
#include "core/topics.h"
#include "core/version.h"
#include "reward/reward_loop.h"
#include "serve/access.h"
#include "serve/loop_metrics.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {
int ServeLoop(Loop& loop, Worker& worker, ServeLoopOptions options) {
  LoopRunner& runner = worker.runner;
  runner.Add(loop);
  worker.beacon.report = [&runner, &clock = worker.clock, began = worker.clock.Now(),
                          report = std::move(options.report)] {
    WorkerReport told = report();
    const double up = Seconds(clock.Now() - began);
    Duration in_loops{};
    for (const LoopUsage& usage : runner.Usage()) {
      in_loops += usage.busy;
      told.counts[kBusyLoop + usage.name] = Seconds(usage.busy);
      told.counts[kTimeLoop + usage.name] = up;
    }
    if (told.port.empty()) {
      told.busy = in_loops;
    } else {
      told.counts[kBusyPort + told.port] = Seconds(told.busy);
      told.counts[kTimePort + told.port] = up * told.slots;
    }
    return told;
  };
  worker.beacon.stuck = [&runner] { return StuckLoop(runner.Usage()); };
  worker.metrics.AddSource([&](MetricSink& sink) {
    SinkRunner(runner.Usage(), sink);
    SinkBus(worker.bus.Stats(), sink);
  });
  Result<std::unique_ptr<WorkerBeacon>> beacon = WorkerBeacon::Start(worker.beacon);
  if (!beacon.ok()) return Fail(beacon.status());
  if (const Status started = runner.Start(); !started.ok()) return Fail(started);
  LogInfo("worker " + worker.name() + " serves", {{"metrics", (*beacon)->url() + "metrics"}});
  Status watched;
  Time look = worker.clock.Now();
  while (watched.ok() && !AskedToStop() && !runner.WaitFor(milliseconds(100))) {
    if (!options.watch || worker.clock.Now() < look) continue;
    watched = options.watch();
    look = worker.clock.Now() + std::chrono::seconds(1);
  }
  (*beacon)->Leaving();
  const Status ended = runner.Drain(options.drain_patience);
  for (const std::string& topic : options.own_topics) (void)worker.bus.Remove(topic);
  if (!ended.ok()) return Fail(ended);
  if (!watched.ok()) return Fail(watched);
  LogInfo("worker " + worker.name() + " left");
  return 0;
}

Result<RunSheet> WaitForSheet(SheetBoard& board, const std::string& run) {
  for (bool told = false; !AskedToStop();) {
    Result<std::optional<RunSheet>> sheet = board.Read();
    if (sheet.status().code() == Code::kInvalid) return sheet.status();
    if (sheet.ok() && *sheet) {
      if ((*sheet)->messages == kMessagesVersion) return std::move(**sheet);
      return Invalid("run " + run + " speaks version " + std::to_string((*sheet)->messages) +
                     " of the messages (its program is " + (*sheet)->program +
                     "), this program version " + std::to_string(kMessagesVersion));
    }
    if (!std::exchange(told, true)) LogInfo("waiting for the learner of run " + run);
    std::this_thread::sleep_for(milliseconds(200));
  }
  return Closed("stopped before there was a learner");
}

namespace {

int RunTools(Worker& worker) {
  ToolExecutorOptions options =
      ToolExecutorOptionsFrom(worker.config, static_cast<int>(worker.config.tools.slots));
  options.tools.worker = worker.name();
  options.metrics = &worker.metrics;
  Result<std::unique_ptr<ToolExecutor>> executor =
      ToolExecutor::Create(options, nullptr, worker.clock);
  if (!executor.ok()) return Fail(executor.status());
  ToolLoopOptions loop_options = ToolLoopOptionsFrom(worker.config);
  loop_options.worker = worker.name();
  ToolLoop loop(worker.bus, **executor, worker.clock, loop_options);
  const ToolCounters& counters = loop.counters();
  ToolExecutor& boxes = **executor;
  worker.metrics.AddSource([&](MetricSink& sink) {
    SinkTools(counters, sink);
    SinkBoxes(boxes.pool().stats(), sink);
  });
  ServeLoopOptions serve;
  // A tool that runs is finished, however long it takes.
  serve.drain_patience = std::chrono::minutes(10);
  serve.own_topics = {ToolCancelTopic(worker.name())};
  serve.report = [&] {
    WorkerReport report;
    const uint64_t running = counters.running;
    report.doing = running == 0 ? "idle" : std::to_string(running) + " calls";
    report.busy = boxes.Busy(worker.clock.Now());
    report.slots =
        static_cast<double>(boxes.slots(ToolLane::kAgent) + boxes.slots(ToolLane::kGrade));
    report.port = "boxes";
    report.counts = {{"calls", static_cast<double>(counters.requests + counters.gradings)},
                     {"gradings", static_cast<double>(counters.gradings)},
                     {"completed", static_cast<double>(counters.completed)},
                     {"busy_seconds", Seconds(report.busy)},
                     {"cache_hits", static_cast<double>(counters.cache_hits + counters.joined)},
                     {"commands", static_cast<double>(counters.cache_misses)},
                     {"joined", static_cast<double>(counters.joined)},
                     {"wall_seconds", static_cast<double>(counters.wall_us) / 1e6},
                     {"queue_seconds", static_cast<double>(counters.queue_us) / 1e6},
                     {"unavailable", static_cast<double>(counters.unavailable)}};
    report.rate_of = "calls";
    report.levels = {{"running", static_cast<double>(running)},
                     {"slots", static_cast<double>(boxes.slots(ToolLane::kAgent))},
                     {"grade_slots", static_cast<double>(boxes.slots(ToolLane::kGrade))}};
    return report;
  };
  return ServeLoop(loop, worker, std::move(serve));
}

int RunReward(Worker& worker) {
  Result<RewardParts> parts = MakeReward(worker.config);
  if (!parts.ok()) return Fail(parts.status());
  parts->options.worker = worker.name();
  parts->options.metrics = &worker.metrics;
  RewardLoop loop(worker.bus, worker.clock, std::move(parts->scorers), parts->options,
                  parts->port.get());
  const RewardCounters& counters = loop.counters();
  worker.metrics.AddSource([&](MetricSink& sink) { SinkReward(counters, sink); });
  ServeLoopOptions serve;
  serve.own_topics = {InboxTopic(worker.name(), "reward")};
  serve.report = [&] {
    WorkerReport report;
    const uint64_t running = counters.in_progress;
    report.doing = running == 0 ? "idle" : std::to_string(running) + " episodes";
    report.counts = {{"scored", static_cast<double>(counters.scored)},
                     {"retries", static_cast<double>(counters.retries)},
                     {"second_looks", static_cast<double>(counters.second_looks)},
                     {"repeated_literals", static_cast<double>(counters.repeated_literals)},
                     {"unscorable", static_cast<double>(counters.unscorable)}};
    report.rate_of = "scored";
    report.levels = {{"running", static_cast<double>(running)}};
    return report;
  };
  return ServeLoop(loop, worker, std::move(serve));
}

Result<WorkerBeaconOptions> BeaconFrom(const WorkerArguments& arguments) {
  WorkerBeaconOptions beacon;
  beacon.url = arguments.url;
  beacon.run = arguments.run;
  beacon.role = arguments.role;
  beacon.worker = WorkerName(arguments.role, getpid());
  beacon.address = arguments.metrics_address;
  beacon.port = arguments.metrics_port;
  if (!arguments.metrics_token_file.empty()) {
    TM_ASSIGN_OR_RETURN(beacon.tokens, ReadTokenFile(arguments.metrics_token_file));
  }
  return beacon;
}

// The config of the run, from a file where one was given, else from the learner's sheet.
Status LoadWorkerConfig(const WorkerArguments& arguments, Binder& binder,
                        std::optional<RunSheet>& sheet) {
  if (!arguments.config_file.empty() && arguments.role != "rollout") {
    TM_RETURN_IF_ERROR(binder.LoadFile(arguments.config_file));
  } else {
    TM_ASSIGN_OR_RETURN(SheetBoard board, SheetBoard::Connect(arguments.url, arguments.run));
    TM_ASSIGN_OR_RETURN(sheet, WaitForSheet(board, arguments.run));
    TM_RETURN_IF_ERROR(binder.LoadText(sheet->config, "the run's sheet"));
  }
  for (const std::string& set : arguments.sets) TM_RETURN_IF_ERROR(binder.Set(set));
  return Ok();
}

int RunWorker(const WorkerArguments& arguments) {
  Result<WorkerBeaconOptions> beacon = BeaconFrom(arguments);
  if (!beacon.ok()) return Fail(beacon.status());
  const RealClock clock;
  Metrics metrics;
  beacon->metrics = &metrics;
  if (arguments.role == "learner") return RunLearner(arguments, std::move(*beacon));
  StopOnSignals();
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  std::optional<RunSheet> sheet;
  const Status loaded = LoadWorkerConfig(arguments, binder, sheet);
  if (loaded.code() == Code::kClosed) return 0;
  if (!loaded.ok()) return Fail(loaded);
  LoopRunner runner;  // first: bus and ports wake its loops to the last
  RedisBusOptions options;
  options.url = arguments.url;
  options.run = arguments.run;
  options.client = beacon->worker;
  Result<std::unique_ptr<RedisBus>> bus = RedisBus::Connect(std::move(options));
  if (!bus.ok()) return Fail(bus.status());
  const Status opened =
      OpenStandardTopics(**bus, {.lease = config.bus.lease, .capacity = config.bus.capacity});
  if (!opened.ok()) return Fail(opened);
  Worker worker{runner, **bus, config, clock, metrics, std::move(*beacon)};
  if (arguments.role == "rollout") return RunRollout(worker, *sheet);
  return arguments.role == "tools" ? RunTools(worker) : RunReward(worker);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, Exit& exit) {
  CLI::App* worker = app.add_subcommand("worker", "Serve one role of a run on Redis Streams");
  auto arguments = std::make_shared<WorkerArguments>();
  worker->add_option("role", arguments->role, "learner, rollout, tools or reward")
      ->required()
      ->check(CLI::IsMember({"learner", "rollout", "tools", "reward"}));
  worker->add_option("--bus", arguments->url, "redis://HOST:PORT/DB, or TIDEMILL_BUS")
      ->envname(kBusVariable)
      ->required();
  worker->add_option("--run", arguments->run, "Name of the run, or TIDEMILL_RUN")
      ->envname(kRunVariable)
      ->required();
  worker->add_option("config,--config", arguments->config_file,
                     "TOML file, see docs/training.md; the other roles get it from the learner");
  worker->add_flag("--resume", arguments->resume,
                   "learner: go on with the run; without one, begin it");
  worker->add_flag("--json", arguments->json,
                   "learner: the summary as one JSON object on standard output");
  worker->add_flag("--no-web", arguments->no_web, "learner: no dashboard (serve.web=false)");
  AddSetOption(*worker, arguments->sets, "Change one key, a.b=c; may be repeated");
  worker
      ->add_option("--metrics-port", arguments->metrics_port,
                   "Port of /metrics, /healthz and /readyz; 0: a free one, shown by status")
      ->capture_default_str();
  worker->add_option("--metrics-address", arguments->metrics_address, "Where they listen")
      ->capture_default_str();
  worker->add_option("--metrics-token-file", arguments->metrics_token_file,
                     "Who asks for /metrics must bear this token; needed outside loopback");
  worker->callback([arguments, &exit] { exit.code = RunWorker(*arguments); });
}

}  // namespace tidemill
