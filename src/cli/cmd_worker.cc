// tidemill worker ROLE: one role of a run alone, on Redis Streams. Joins and leaves at any time; on
// SIGTERM it takes nothing new, finishes or gives back what it holds, and leaves.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

#include "bus/redis/redis_bus.h"
#include "bus/redis/redis_roster.h"
#include "bus/standard_topics.h"
#include "cli/commands.h"
#include "cli/make_scorers.h"
#include "cli/run_config.h"
#include "core/log.h"
#include "core/loop_runner.h"
#include "core/threads.h"
#include "reward/reward_loop.h"
#include "serve/access.h"
#include "serve/loop_metrics.h"
#include "serve/worker_beacon.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

struct WorkerArguments {
  std::string role, url, run, config_file;
  std::vector<std::string> sets;
  std::string metrics_address = "127.0.0.1", metrics_token_file;
  uint16_t metrics_port = 0;
};

// What every role has.
struct Worker {
  LoopRunner& runner;  // outlives the bus, which wakes its loops to the last
  RedisBus& bus;
  const RunConfig& config;
  const Clock& clock;
  Metrics& metrics;
  WorkerBeaconOptions beacon;  // all but `report`

  const std::string& name() const { return beacon.worker; }
};

std::atomic<bool> asked_to_stop{false};

int Fail(const Status& status) {
  std::fprintf(stderr, "tidemill worker: %s\n", status.message().c_str());
  return status.code() == Code::kInvalid ? 2 : 1;
}

// Runs the loop until a signal asks to stop, then drains it. `report` says what it does meanwhile.
int Serve(Loop& loop, Worker& worker, Duration drain_patience,
          std::function<WorkerReport()> report) {
  struct sigaction action = {};
  action.sa_handler = [](int) { asked_to_stop = true; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  LoopRunner& runner = worker.runner;
  runner.Add(loop);
  worker.beacon.report = [&runner, report = std::move(report)] {
    WorkerReport told = report();
    if (told.busy == Duration(0)) {
      for (const LoopUsage& usage : runner.Usage()) told.busy += usage.busy;
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
  while (!asked_to_stop && !runner.WaitFor(milliseconds(100))) {
  }
  (*beacon)->Leaving();
  const Status ended = runner.Drain(drain_patience);
  if (!ended.ok()) return Fail(ended);
  LogInfo("worker " + worker.name() + " left");
  return 0;
}

int RunTools(Worker& worker) {
  const RunConfig& config = worker.config;
  ToolExecutorOptions options;
  options.tools.limits.wall = milliseconds(config.tools.wall_ms);
  options.tools.limits.cpu = milliseconds(config.tools.cpu_ms);
  options.tools.limits.memory_bytes = uint64_t{config.tools.memory_mb} << 20;
  options.tools.limits.processes = config.tools.processes;
  options.tools.limits.output_bytes = uint64_t{config.tools.output_kb} << 10;
  options.tools.limits.disk_bytes = uint64_t{config.tools.disk_mb} << 20;
  options.tools.worker = worker.name();
  options.metrics = &worker.metrics;
  options.slots = options.grade_slots = config.tools.slots;
  Result<std::unique_ptr<ToolExecutor>> executor =
      ToolExecutor::Create(options, nullptr, worker.clock);
  if (!executor.ok()) return Fail(executor.status());
  ToolLoopOptions loop_options;
  loop_options.worker = worker.name();
  loop_options.lease_period = config.bus.lease / 3;
  loop_options.cache_results = config.tools.cache;
  ToolLoop loop(worker.bus, **executor, worker.clock, loop_options);
  const ToolCounters& counters = loop.counters();
  ToolExecutor& boxes = **executor;
  worker.metrics.AddSource([&](MetricSink& sink) {
    SinkTools(counters, sink);
    SinkBoxes(boxes.pool().stats(), sink);
  });
  // A tool that runs is finished, however long it takes.
  return Serve(loop, worker, std::chrono::minutes(10), [&] {
    WorkerReport report;
    const uint64_t running = counters.running;
    report.doing = running == 0 ? "idle" : std::to_string(running) + " calls";
    report.busy = boxes.Busy(worker.clock.Now());
    report.slots =
        static_cast<double>(boxes.slots(ToolLane::kAgent) + boxes.slots(ToolLane::kGrade));
    report.numbers = {{"calls", static_cast<double>(counters.requests + counters.gradings)},
                      {"completed", static_cast<double>(counters.completed)},
                      {"busy_seconds", Seconds(report.busy)},
                      {"slots", static_cast<double>(boxes.slots(ToolLane::kAgent))},
                      {"grade_slots", static_cast<double>(boxes.slots(ToolLane::kGrade))},
                      {"unavailable", static_cast<double>(counters.unavailable)}};
    return report;
  });
}

int RunReward(Worker& worker) {
  const RunConfig& config = worker.config;
  Result<RewardParts> parts = MakeReward(config);
  if (!parts.ok()) return Fail(parts.status());
  parts->options.worker = worker.name();
  parts->options.metrics = &worker.metrics;
  RewardLoop loop(worker.bus, worker.clock, std::move(parts->scorers), parts->options,
                  parts->port.get());
  const RewardCounters& counters = loop.counters();
  worker.metrics.AddSource([&](MetricSink& sink) { SinkReward(counters, sink); });
  return Serve(loop, worker, std::chrono::seconds(30), [&] {
    WorkerReport report;
    const uint64_t running = counters.in_progress;
    report.doing = running == 0 ? "idle" : std::to_string(running) + " episodes";
    report.numbers = {{"scored", static_cast<double>(counters.scored)},
                      {"retries", static_cast<double>(counters.retries)},
                      {"skipped", static_cast<double>(counters.unscorable)}};
    return report;
  });
}

int RunWorker(const WorkerArguments& arguments) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  if (!arguments.config_file.empty()) {
    if (const Status status = binder.LoadFile(arguments.config_file); !status.ok())
      return Fail(status);
  }
  for (const std::string& set : arguments.sets) {
    if (const Status status = binder.Set(set); !status.ok()) return Fail(status);
  }
  WorkerBeaconOptions beacon;
  beacon.url = arguments.url;
  beacon.run = arguments.run;
  beacon.role = arguments.role;
  beacon.worker = WorkerName(arguments.role, getpid());
  beacon.address = arguments.metrics_address;
  beacon.port = arguments.metrics_port;
  if (!arguments.metrics_token_file.empty()) {
    Result<std::vector<std::string>> tokens = ReadTokenFile(arguments.metrics_token_file);
    if (!tokens.ok()) return Fail(tokens.status());
    beacon.tokens = std::move(*tokens);
  }
  LoopRunner runner;
  RedisBusOptions options;
  options.url = arguments.url;
  options.run = arguments.run;
  options.client = beacon.worker;
  Result<std::unique_ptr<RedisBus>> bus = RedisBus::Connect(std::move(options));
  if (!bus.ok()) return Fail(bus.status());
  const Status opened =
      OpenStandardTopics(**bus, {.lease = config.bus.lease, .capacity = config.bus.capacity});
  if (!opened.ok()) return Fail(opened);
  const RealClock clock;
  Metrics metrics;
  beacon.metrics = &metrics;
  Worker worker{runner, **bus, config, clock, metrics, std::move(beacon)};
  return arguments.role == "tools" ? RunTools(worker) : RunReward(worker);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, Exit& exit) {
  CLI::App* worker = app.add_subcommand("worker", "Serve one role of a run on Redis Streams");
  auto arguments = std::make_shared<WorkerArguments>();
  worker->add_option("role", arguments->role, "tools or reward")
      ->required()
      ->check(CLI::IsMember({"tools", "reward"}));
  worker->add_option("--bus", arguments->url, "redis://HOST:PORT/DB, or TIDEMILL_BUS")
      ->envname(kBusVariable)
      ->required();
  worker->add_option("--run", arguments->run, "Name of the run, or TIDEMILL_RUN")
      ->envname(kRunVariable)
      ->required();
  worker->add_option("--config", arguments->config_file, "TOML file; see docs/training.md");
  worker->add_option("--set", arguments->sets, "Change one key, a.b=c; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
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
