// tidemill worker learner: dispatcher, replay, trainer and the run's directory; the other roles are
// processes on the same bus. One learner a run.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "bus/broker.h"
#include "cli/commands.h"
#include "cli/display.h"
#include "cli/worker_learner.h"
#include "core/log.h"
#include "core/version.h"
#include "run/model_files.h"
#include "run/run_counters.h"
#include "run/run_dashboard.h"
#include "run/run_driver.h"
#include "run/run_sheet.h"
#include "run/run_summary.h"
#include "run/worker.h"
#include "tools/mcp_offer.h"
#include "weights/shm_weights.h"
#include "weights/weight_publisher.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

// Other processes may have another working directory.
void MakeAbsolute(std::string& path) {
  if (!path.empty()) path = fs::absolute(path).lexically_normal().string();
}

std::string HostName() {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  return host;
}

struct OpenedRun {
  RunDirectory directory;
  bool resumed = false;
};

// The run's directory: the one there is, with --resume, or a new one. The config is loaded, checked
// and written.
Result<OpenedRun> OpenOrCreate(const WorkerArguments& arguments, RunConfig& config,
                               Binder& binder) {
  std::optional<RunDirectory> directory;
  TM_RETURN_IF_ERROR(binder.Load(arguments.config_file, arguments.sets));
  if (arguments.resume) {
    Result<RunDirectory> opened = RunDirectory::OpenToResume(config.run.folder, arguments.run);
    const bool begin = opened.status().code() == Code::kNotFound && !arguments.config_file.empty();
    if (!opened.ok() && !begin) return opened.status();
    if (opened.ok()) {
      directory = std::move(*opened);
      // The run's own config, and the words of this command on top.
      TM_RETURN_IF_ERROR(binder.LoadFile(directory->config_path()));
      TM_RETURN_IF_ERROR(binder.Load(arguments.config_file, arguments.sets));
    }
  }
  config.run.name = arguments.run;
  for (std::string* path : {&config.model.path, &config.model.tokenizer, &config.model.adapter,
                            &config.tasks.train, &config.tasks.eval, &config.run.folder}) {
    MakeAbsolute(*path);
  }
  TM_RETURN_IF_ERROR(CheckRunConfig(config, binder));
  const std::string toml = binder.ToToml("tidemill " + FullVersion());
  if (directory) {
    TM_RETURN_IF_ERROR(directory->WriteConfig(toml));
    return OpenedRun{std::move(*directory), true};
  }
  TM_ASSIGN_OR_RETURN(RunDirectory made,
                      RunDirectory::Create(config.run.folder, arguments.run, toml));
  return OpenedRun{std::move(made), false};
}

// How others see the learner: the roster, the metrics and the sheet.
struct Company {
  std::unique_ptr<WorkerBeacon> beacon;
  std::unique_ptr<ModelShelf> shelf;
  std::unique_ptr<SheetKeeper> sheet;  // its thread uses the shelf
  std::shared_ptr<void> janitor;       // of the broker, where it needs one
};

Result<std::shared_ptr<void>> MakeCompany(Run& run, BrokerBus& bus, SheetBoard board,
                                          RunSheet sheet, WorkerBeaconOptions beacon) {
  WeightPublisher& publisher = *run.process().publisher;
  auto company = std::make_shared<Company>();
  TM_ASSIGN_OR_RETURN(company->janitor, StartJanitor(beacon.url, beacon.run, bus, {run.worker()}));
  beacon.report = [&run] { return ReportOf(run); };
  beacon.stuck = [&run] { return run.StuckLoop(); };
  TM_ASSIGN_OR_RETURN(company->beacon, WorkerBeacon::Start(std::move(beacon)));
  sheet.shm = publisher.shm_location();
  sheet.weights_folder = publisher.options().folder;
  const RunConfig& config = run.process().config;
  const ModelFolders folders = {config.model.path, config.model.tokenizer, config.model.adapter};
  const bool adapters = config.learner.lora_rank > 0 || !config.model.adapter.empty();
  TM_ASSIGN_OR_RETURN(sheet.model_files, ListModelFiles(folders, adapters));
  company->shelf = std::make_unique<ModelShelf>(
      folders, sheet.model_files, [url = run.process().request.bus_url, name = config.run.name] {
        return ConnectPlace(url, name);
      });
  company->sheet = std::make_unique<SheetKeeper>(
      std::move(board), std::move(sheet),
      SheetKeeper::Answers{.weights = [&publisher](WeightsWay way) { publisher.Want(way); },
                           .model = [shelf = company->shelf.get()] { shelf->Want(); }});
  return std::shared_ptr<void>(std::move(company));
}

void TellWorkers(const WorkerArguments& arguments, const RunSheet& last) {
  Result<SheetBoard> board =
      SheetBoard::Connect(arguments.url, arguments.run, {.sign = arguments.keys.sign});
  const Status told = board.ok() ? TellEnded(*board, last) : board.status();
  if (!told.ok())
    LogWarn("the workers were not told that the run ended", {{"why", told.message()}});
}

}  // namespace

int RunLearner(const WorkerArguments& arguments, WorkerBeaconOptions beacon) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  Result<SheetBoard> board =
      SheetBoard::Connect(arguments.url, arguments.run, {.sign = arguments.keys.sign});
  if (!board.ok()) return Fail(board.status());
  if (Status seat = WaitForSeat(*board); !seat.ok()) return Fail(seat);
  Result<OpenedRun> open = OpenOrCreate(arguments, config, binder);
  if (!open.ok()) return Fail(open.status());
  // In the sheet, so that all workers have the same tools.
  if (Status listed = ListMcpTools(config.tools); !listed.ok()) return Fail(listed);
  RunDirectory& directory = open->directory;
  if (open->resumed) {
    if (const Result<std::string> done = FinishedSummary(directory, config.run.steps); done.ok()) {
      std::fputs(arguments.json ? done->c_str() : SummaryText(*done).c_str(), stdout);
      std::fprintf(stderr, "run %s is finished; to go on, set run.steps higher\n",
                   directory.name().c_str());
      return 0;
    }
  }
  // A new run finds nothing of an older one with its name.
  if (!open->resumed) {
    const Status cleared = RemoveRun(arguments.url, arguments.run);
    if (!cleared.ok()) return Fail(cleared);
  }
  BrokerBusOptions bus_options;
  bus_options.url = arguments.url;
  bus_options.run = arguments.run;
  bus_options.client = beacon.worker;
  Result<std::unique_ptr<BrokerBus>> bus = ConnectBus(bus_options);
  if (!bus.ok()) return Fail(bus.status());

  RunSheet sheet;
  sheet.run = arguments.run;
  sheet.config = binder.ToToml("tidemill " + FullVersion());
  sheet.program = FullVersion();
  sheet.messages = kMessagesVersion;
  sheet.host = HostName();
  sheet.shm_domain = ShmDomain();
  sheet.pid = getpid();
  beacon.watch_run = true;
  beacon.metrics_file = directory.metrics_path();
  beacon.counters = RunCounters();
  DriveOptions options;
  options.run.resume = open->resumed;
  options.run.fleet = bus->get();
  options.run.roles = {.learner = true};
  options.run.bus_url = arguments.url;
  options.run.metrics = beacon.metrics;
  std::optional<Display> display;
  if (!arguments.json || LogEnabled(LogLevel::kInfo)) {
    options.display = &display.emplace(stderr, GoalOf(config));
  }
  options.fleet_url = arguments.url;
  if (config.dashboard.web && !arguments.no_web) {
    Result<HttpOptions> web = DashboardOptions(config);
    if (!web.ok()) return Wrong(web.status());
    options.web = std::move(*web);
  }
  options.attend = [&](Run& run) {
    // What workers tell the sheets of several learners apart by, also the one that says the end.
    sheet.version = run.process().start.version;
    sheet.incarnation = run.process().publisher->options().incarnation;
    return MakeCompany(run, **bus, std::move(*board), sheet, std::move(beacon));
  };
  LogInfo("run " + directory.name(), {{"folder", directory.path()}, {"mode", config.run.mode}});
  Result<DriveResult> result = DriveRun(config, directory, options);
  if (!result.ok()) return Fail(result.status());
  std::fputs(
      arguments.json ? result->summary_json.c_str() : SummaryText(result->summary_json).c_str(),
      stdout);
  if (result->ranks_lost > 0) {
    std::fprintf(stderr,
                 "to resume from the last checkpoint, run the same command with --resume\n");
  }
  // One that was interrupted or lost ranks goes on, with the same workers.
  if (!result->interrupted && result->ranks_lost == 0 && !arguments.keep_workers) {
    TellWorkers(arguments, sheet);
  }
  if (!result->status.ok()) return Fail(result->status);
  if (result->interrupted) {
    std::fprintf(stderr, "to resume, run the same command with --resume\n");
    return kInterrupted;
  }
  return 0;
}

}  // namespace tidemill
