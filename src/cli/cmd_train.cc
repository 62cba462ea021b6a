// tidemill train: a run on this machine, from a config or from where an earlier one stopped.
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/display.h"
#include "core/log.h"
#include "core/version.h"
#include "run/run_config.h"
#include "run/run_dashboard.h"
#include "run/run_driver.h"
#include "run/run_path.h"
#include "run/run_summary.h"

namespace tidemill {
namespace {

struct TrainArguments {
  std::string config_file;
  std::vector<std::string> sets;
  std::string resume;
  std::string mode;
  bool json = false;
  bool show_config = false;
  bool config_table = false;
  bool no_web = false;
};

std::string NameFromTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

// Sees the run through. One whose learner lost ranks goes on from its last checkpoint with those
// that are left; ranks of fsdp2 are started again, all of them, as long as there are steps between.
Result<DriveResult> Drive(RunConfig config, RunDirectory& directory, DriveOptions options) {
  for (std::optional<uint64_t> reached;;) {
    Result<DriveResult> result = DriveRun(config, directory, options);
    if (!result.ok() || result->ranks_lost == 0 || result->interrupted) return result;
    if (config.learner.own()) {
      const auto lost = static_cast<uint32_t>(result->ranks_lost);
      config.learner.ranks -= std::min(lost, config.learner.ranks - 1);
    } else if (reached && result->step <= *reached) {
      return result;
    }
    reached = result->step;
    options.run.resume = true;
    LogWarn(config.learner.own()
                ? "continuing from the last checkpoint with the remaining ranks"
                : "continuing from the last checkpoint with the ranks started anew",
            {{"why", result->status.message()}, {"ranks", config.learner.ranks}});
  }
}

// Says what the run came to. Returns the exit status.
int ReportEnd(const TrainArguments& arguments, const RunDirectory& directory,
              const DriveResult& result) {
  const std::string& summary = result.summary_json;
  std::fputs(arguments.json ? summary.c_str() : SummaryText(summary).c_str(), stdout);
  if (!result.status.ok()) return Fail(result.status);
  if (result.interrupted) {
    std::fprintf(stderr, "resume with: tidemill train --resume %s\n", directory.path().c_str());
    return kInterrupted;
  }
  if (!arguments.json) {
    const std::string run =
        directory.path() == "runs/" + directory.name() ? directory.name() : directory.path();
    std::printf("the page again: tidemill view %s; episodes: tidemill runs episodes %s --worst 5\n",
                run.c_str(), run.c_str());
  }
  return 0;
}

int RunTrain(const TrainArguments& arguments) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  if (arguments.config_table) {
    std::fputs(binder.ToMarkdown().c_str(), stdout);
    return 0;
  }
  std::optional<RunDirectory> directory;
  if (!arguments.resume.empty()) {
    const auto [folder, name] = SplitRunPath(arguments.resume, config.run.folder);
    Result<RunDirectory> opened = RunDirectory::OpenToResume(folder, name);
    if (!opened.ok()) return Fail(opened.status());
    directory = std::move(*opened);
    if (Status status = binder.LoadFile(directory->config_path()); !status.ok())
      return Wrong(status);
  }
  std::vector<std::string> sets = arguments.sets;
  if (!arguments.mode.empty()) sets.insert(sets.begin(), "run.mode=" + arguments.mode);
  if (Status status = binder.Load(arguments.config_file, sets); !status.ok()) return Wrong(status);
  if (config.run.name.empty()) config.run.name = NameFromTime();
  if (Status status = CheckRunConfig(config, binder); !status.ok()) return Wrong(status);
  const std::string toml = binder.ToToml("tidemill " + FullVersion());
  if (arguments.show_config) {
    std::fputs(toml.c_str(), stdout);
    return 0;
  }
  if (directory) {
    if (const Result<std::string> done = FinishedSummary(*directory, RunStepsOf(config));
        done.ok()) {
      std::fputs(arguments.json ? done->c_str() : SummaryText(*done).c_str(), stdout);
      std::fprintf(stderr,
                   "run %s is finished; to go on: tidemill train --resume %s --set run.steps=N\n",
                   directory->name().c_str(), directory->path().c_str());
      return 0;
    }
  }
  DriveOptions options;
  if (config.dashboard.web && !arguments.no_web) {
    Result<HttpOptions> web = DashboardOptions(config);
    if (!web.ok()) return Wrong(web.status());
    options.web = std::move(*web);
  }
  if (!directory) {
    Result<RunDirectory> made = RunDirectory::Create(config.run.folder, config.run.name, toml);
    if (!made.ok()) return Fail(made.status());
    directory = std::move(*made);
  } else if (Status status = directory->WriteConfig(toml); !status.ok()) {
    return Fail(status);
  }
  LogInfo("run " + directory->name(), {{"folder", directory->path()}, {"mode", config.run.mode}});
  options.run.resume = !arguments.resume.empty();
  std::optional<Display> display;
  if (!arguments.json || LogEnabled(LogLevel::kInfo)) {
    options.display = &display.emplace(stderr, GoalOf(config));
  }
  Result<DriveResult> result = Drive(config, *directory, options);
  if (!result.ok()) return Fail(result.status());
  return ReportEnd(arguments, *directory, *result);
}

}  // namespace

void AddTrainCommand(CLI::App& app, Exit& exit) {
  CLI::App* train =
      app.add_subcommand("train", "Train a policy by reinforcement learning on this machine");
  auto arguments = std::make_shared<TrainArguments>();
  train->add_option("config", arguments->config_file, "TOML file; see docs/config.md");
  AddSetOption(*train, arguments->sets, "Set a config key, a.b=c; may be repeated");
  train->add_option("--resume", arguments->resume, "Resume this run (name or folder)");
  train->add_option("--mode", arguments->mode, "async, one-step or sync")
      ->check(CLI::IsMember({"async", "one-step", "sync"}));
  train->add_flag("--json", arguments->json,
                  "Print the summary as one JSON object on standard output");
  train->add_flag("--no-web", arguments->no_web, "No dashboard (dashboard.web=false)");
  train->add_flag("--show-config", arguments->show_config, "Print the resolved config and exit");
  train->add_flag("--config-table", arguments->config_table,
                  "Print every config key as a Markdown table and exit");
  train->callback([arguments, &exit] { exit.code = RunTrain(*arguments); });
}

}  // namespace tidemill
