// tidemill scale: keeps as many tool workers as the queues of a run ask for, or says how many it
// would keep.
#include <unistd.h>

#include <memory>

#include "bus/broker.h"
#include "cli/commands.h"
#include "core/child_process.h"
#include "core/log.h"
#include "core/loop_runner.h"
#include "http/access.h"
#include "observe/worker_beacon.h"
#include "run/stop_signal.h"
#include "scale/autoscaler.h"
#include "scale/broker_fleet.h"
#include "scale/local_workers.h"

namespace tidemill {
namespace {

struct ScaleArguments {
  std::string url, run, backend = "local", config_file;
  std::vector<std::string> sets;
  size_t min = 1, max = 8;
  uint32_t target_wait_ms = 500, cool_down_s = 60;
  std::string metrics_address = "127.0.0.1", metrics_token_file;
  uint16_t metrics_port = 0;
};

// A worker's command line: this program, the same run and config. The URL, which may have a
// password, goes by the environment.
std::vector<std::string> WorkerCommand(const ScaleArguments& arguments) {
  setenv(kBusVariable, arguments.url.c_str(), 1);
  std::vector<std::string> command = {ThisProgram(), "worker", "tools", "--run", arguments.run};
  if (!arguments.config_file.empty()) {
    command.insert(command.end(), {"--config", arguments.config_file});
  }
  for (const std::string& set : arguments.sets) command.insert(command.end(), {"--set", set});
  return command;
}

WorkerReport ReportOf(const ScaleCounters& c) {
  WorkerReport report;
  report.doing = std::to_string(c.wanted.load()) + " desired, " +
                 std::to_string(c.own + c.foreign) + " present";
  report.levels = {{"wanted", static_cast<double>(c.wanted)}, {"own", static_cast<double>(c.own)}};
  report.counts = {{"failed", static_cast<double>(c.failed)}};
  return report;
}

Result<WorkerBeaconOptions> BeaconOptions(const ScaleArguments& arguments) {
  WorkerBeaconOptions beacon;
  beacon.url = arguments.url;
  beacon.run = arguments.run;
  beacon.role = "scale";
  beacon.worker = WorkerName("scale", getpid());
  beacon.address = arguments.metrics_address;
  beacon.port = arguments.metrics_port;
  beacon.watch_run = true;
  if (!arguments.metrics_token_file.empty()) {
    TM_ASSIGN_OR_RETURN(beacon.tokens, ReadTokenFile(arguments.metrics_token_file));
  }
  return beacon;
}

int RunScale(const ScaleArguments& arguments) {
  if (arguments.min > arguments.max) return Fail(Invalid("--min must not be greater than --max"));
  Result<WorkerBeaconOptions> options = BeaconOptions(arguments);
  if (!options.ok()) return Fail(options.status());
  const Result<std::unique_ptr<RunInspector>> inspector = ConnectInspector(arguments.url);
  if (!inspector.ok()) return Fail(inspector.status());
  if (const Status there = (*inspector)->CheckRun(arguments.run); !there.ok()) return Fail(there);

  Metrics metrics;
  LoopRunner runner;  // first: the fleet's answers and the workers' ends wake its loop to the last
  const auto fleet = WatchBrokerFleet(arguments.url, arguments.run);
  std::unique_ptr<WorkerBackend> backend;
  if (arguments.backend == "local") backend = StartLocalWorkers(WorkerCommand(arguments));
  AutoscalerOptions scaling;
  scaling.rule = {.min = arguments.min,
                  .max = arguments.max,
                  .target_wait = milliseconds(arguments.target_wait_ms),
                  .cool_down = std::chrono::seconds(arguments.cool_down_s)};
  Autoscaler scaler(*fleet, backend.get(), scaling);
  runner.Add(scaler);
  metrics.AddSource([&](MetricSink& sink) {
    SinkCounters(scaler.counters(), sink);
    SinkUsage(runner.Usage(), sink);
  });
  options->metrics = &metrics;
  options->report = [&] { return ReportOf(scaler.counters()); };
  options->stuck = [&] { return StuckLoop(runner.Usage()); };
  Result<std::unique_ptr<WorkerBeacon>> beacon = WorkerBeacon::Start(*options);
  if (!beacon.ok()) return Fail(beacon.status());

  StopOnSignals();
  if (const Status started = runner.Start(); !started.ok()) return Fail(started);
  LogInfo("watching the tool topics of " + arguments.run,
          {{"backend", arguments.backend}, {"metrics", (*beacon)->url() + "metrics"}});
  while (!AskedToStop() && !runner.WaitFor(milliseconds(100))) {
  }
  (*beacon)->Leaving();
  // Workers finish the tools they run.
  const Status ended = runner.Drain(std::chrono::minutes(10));
  return ended.ok() ? 0 : Fail(ended);
}

}  // namespace

void AddScaleCommand(CLI::App& app, Exit& exit) {
  CLI::App* scale = app.add_subcommand("scale", "Scale tool workers by queue length");
  auto arguments = std::make_shared<ScaleArguments>();
  scale->add_option("--bus", arguments->url, kBusUrlForm)->envname(kBusVariable)->required();
  scale->add_option("--run", arguments->run, "Name of the run; default: TIDEMILL_RUN")
      ->envname(kRunVariable)
      ->required();
  scale
      ->add_option("--backend", arguments->backend,
                   "local: start processes on this machine; none: only report the number")
      ->check(CLI::IsMember({"local", "none"}))
      ->capture_default_str();
  scale->add_option("--min", arguments->min, "Minimum number of tool workers")
      ->capture_default_str();
  scale->add_option("--max", arguments->max, "Maximum number of tool workers")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  scale
      ->add_option("--target-wait-ms", arguments->target_wait_ms,
                   "Target queue wait of a tool call")
      ->check(CLI::Range(1, 3'600'000))
      ->capture_default_str();
  scale
      ->add_option("--cool-down-s", arguments->cool_down_s,
                   "How long fewer workers must have been enough before one is removed")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  scale->add_option("--config", arguments->config_file, "Config file passed on to the workers");
  AddSetOption(*scale, arguments->sets,
               "Config key passed on to the workers, a.b=c; may be repeated");
  scale->add_option("--metrics-port", arguments->metrics_port, "See tidemill worker --help")
      ->capture_default_str();
  scale->add_option("--metrics-address", arguments->metrics_address, "See tidemill worker --help")
      ->capture_default_str();
  scale->add_option("--metrics-token-file", arguments->metrics_token_file,
                    "See tidemill worker --help");
  scale->callback([arguments, &exit] { exit.code = RunScale(*arguments); });
}

}  // namespace tidemill
