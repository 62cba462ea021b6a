// tidemill worker ROLE: one role of a run alone, on a broker. Joins and leaves at any time; on
// SIGTERM it takes nothing new, finishes or gives back what it holds, and leaves.
#include <unistd.h>

#include <charconv>
#include <memory>

#include "bus/broker.h"
#include "cli/commands.h"
#include "cli/worker_learner.h"
#include "core/log.h"
#include "http/access.h"
#include "run/model_files.h"
#include "run/run_sheet.h"
#include "run/stop_signal.h"
#include "run/unsigned_sheet.h"
#include "run/worker.h"

namespace tidemill {
namespace {

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

// Whoever can write to the broker can write a sheet: what a worker runs, asks or shows to a box
// must come from elsewhere.
Status CheckUnsigned(const std::string& role, const RunConfig& config) {
  std::string keys;
  for (const std::string& key : KeysThatAct(role, config)) {
    keys += (keys.empty() ? "" : ", ") + key;
  }
  if (keys.empty()) return Ok();
  return Invalid("the run's sheet says what to run, to ask or to show to a box here (" + keys +
                 ") and its signature was not checked; give this worker the learner's public "
                 "key (--verify-key) or a config of its own (--config)");
}

// The config of the run, from a file where one was given, else from the learner's sheet.
Status LoadWorkerConfig(const WorkerArguments& arguments, const WorkerBeaconOptions& beacon,
                        const RunConfig& config, Binder& binder, std::optional<RunSheet>& sheet) {
  if (!arguments.config_file.empty()) {
    TM_RETURN_IF_ERROR(binder.LoadFile(arguments.config_file));
  } else {
    TM_ASSIGN_OR_RETURN(SheetBoard board,
                        SheetBoard::Connect(arguments.url, arguments.run, arguments.keys));
    WaitingWorker waiting(beacon);
    TM_ASSIGN_OR_RETURN(sheet, WaitForSheet(board, arguments.run, [&] { waiting.Waiting(); }));
    TM_RETURN_IF_ERROR(binder.LoadText(sheet->config, "the run sheet"));
    if (!sheet->signed_by_learner) TM_RETURN_IF_ERROR(CheckUnsigned(arguments.role, config));
  }
  for (const std::string& set : arguments.sets) TM_RETURN_IF_ERROR(binder.Set(set));
  return Ok();
}

// A rollout worker that does not see the learner's model gets it from the broker.
Status FindModel(const WorkerArguments& arguments, const RunSheet& sheet, RunConfig& config) {
  TM_ASSIGN_OR_RETURN(SheetBoard board,
                      SheetBoard::Connect(arguments.url, arguments.run, arguments.keys));
  TM_ASSIGN_OR_RETURN(const auto place, ConnectPlace(arguments.url, arguments.run));
  ModelFolders folders = {config.model.path, config.model.tokenizer, config.model.adapter};
  const auto ask = [&] {
    // A broker that is away comes back; asking again is all there is to do.
    (void)board.AskForModel();
    return AskedToStop() ? Closed("stopped before the model's files arrived") : Ok();
  };
  TM_RETURN_IF_ERROR(BringModel(sheet.model_files, *place, ModelCache(), ask, folders));
  config.model.path = folders.model;
  config.model.tokenizer = folders.tokenizer;
  config.model.adapter = folders.adapter;
  return Ok();
}

// Where a worker listens is its own: the run's config says it of the learner's machine.
Status SetListen(const WorkerArguments& arguments, GatewayConfig& gateway) {
  gateway.port = 0;
  gateway.host = "127.0.0.1";
  gateway.keys = arguments.keys_file;
  gateway.access_log.clear();
  if (arguments.listen.empty()) return Ok();
  const size_t colon = arguments.listen.rfind(':');
  const std::string port =
      colon == std::string::npos ? arguments.listen : arguments.listen.substr(colon + 1);
  if (colon != std::string::npos) gateway.host = arguments.listen.substr(0, colon);
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), gateway.port);
  if (error != std::errc() || stop != port.data() + port.size() || gateway.port == 0 ||
      gateway.port > 65535) {
    return Invalid("--listen must be PORT or HOST:PORT, got \"" + arguments.listen + "\"");
  }
  return Ok();
}

int RunWorker(const WorkerArguments& arguments) {
  Result<WorkerBeaconOptions> beacon = BeaconFrom(arguments);
  if (!beacon.ok()) return Fail(beacon.status());
  Metrics metrics;
  beacon->metrics = &metrics;
  if (arguments.role == "learner") return RunLearner(arguments, std::move(*beacon));
  StopOnSignals();
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  std::optional<RunSheet> sheet;
  const Status loaded = LoadWorkerConfig(arguments, *beacon, config, binder, sheet);
  if (loaded.code() == Code::kClosed) return 0;
  if (!loaded.ok()) return Fail(loaded);
  if (arguments.role == "rollout" && sheet) {
    const Status found = FindModel(arguments, *sheet, config);
    if (found.code() == Code::kClosed) return 0;
    if (!found.ok()) return Fail(found);
  }
  if (Status listen = SetListen(arguments, config.gateway); !listen.ok()) return Wrong(listen);
  BrokerBusOptions options;
  options.url = arguments.url;
  options.run = arguments.run;
  options.client = beacon->worker;
  Result<std::unique_ptr<BrokerBus>> bus = ConnectBus(options);
  if (!bus.ok()) return Fail(bus.status());
  config.run.name = arguments.run;
  RunRequest request;
  request.roles = {.rollout = arguments.role == "rollout",
                   .tools = arguments.role == "tools",
                   .reward = arguments.role == "reward"};
  request.metrics = &metrics;
  request.fleet = bus->get();
  request.worker = beacon->worker;
  request.bus_url = arguments.url;
  request.keys = {.verify = arguments.keys.verify};
  Result<std::unique_ptr<Run>> run = OpenRun(config, request);
  if (run.status().code() == Code::kClosed) return 0;
  if (!run.ok()) return Fail(run.status());
  for (const std::string& warning : (*run)->process().warnings) LogWarn(warning);
  Result<SheetBoard> board = SheetBoard::Connect(arguments.url, arguments.run, request.keys);
  if (!board.ok()) return Fail(board.status());
  const Status served = ServeWorker(**run, std::move(*beacon), [&] {
    const Result<bool> ended = board->Ended();
    return ended.ok() && *ended;
  });
  return served.ok() ? 0 : Fail(served);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, Exit& exit) {
  CLI::App* worker =
      app.add_subcommand("worker", "Run one role of a run on a broker (Redis or RabbitMQ)");
  auto arguments = std::make_shared<WorkerArguments>();
  worker->add_option("role", arguments->role, "learner, rollout, tools or reward")
      ->required()
      ->check(CLI::IsMember({"learner", "rollout", "tools", "reward"}));
  worker->add_option("--bus", arguments->url, kBusUrlForm)->envname(kBusVariable)->required();
  worker->add_option("--run", arguments->run, "Name of the run; default: TIDEMILL_RUN")
      ->envname(kRunVariable)
      ->required();
  worker->add_option(
      "config,--config", arguments->config_file,
      "TOML file, see docs/config.md; without one the other roles than the learner get its config");
  worker->add_flag("--resume", arguments->resume,
                   "learner: resume the run, or start it if there is none");
  worker->add_flag("--keep-workers", arguments->keep_workers,
                   "learner: workers wait for the next learner when the run is done");
  worker->add_flag("--json", arguments->json,
                   "learner: print the summary as one JSON object on standard output");
  worker->add_flag("--no-web", arguments->no_web, "learner: no dashboard (dashboard.web=false)");
  AddSetOption(*worker, arguments->sets, "Set a config key, a.b=c; may be repeated");
  worker
      ->add_option("--metrics-port", arguments->metrics_port,
                   "Port of /metrics, /healthz and /readyz; 0: any free port, shown by status")
      ->capture_default_str();
  worker
      ->add_option("--metrics-address", arguments->metrics_address,
                   "Listen address of the metrics port")
      ->capture_default_str();
  worker->add_option("--metrics-token-file", arguments->metrics_token_file,
                     "File with the bearer token for /metrics; required outside loopback");
  worker->add_option("--listen", arguments->listen,
                     "rollout: [HOST:]PORT on which the policy is served to agents and clients");
  worker->add_option("--keys", arguments->keys_file,
                     "rollout: file of API keys; required outside loopback");
  worker
      ->add_option("--sign-key", arguments->keys.sign,
                   "learner: private key that signs the run sheet; see tidemill bus key")
      ->envname("TIDEMILL_SIGN_KEY");
  worker
      ->add_option("--verify-key", arguments->keys.verify,
                   "Public key of the learner; unsigned run sheets are refused")
      ->envname("TIDEMILL_VERIFY_KEY");
  worker->callback([arguments, &exit] { exit.code = RunWorker(*arguments); });
}

}  // namespace tidemill
