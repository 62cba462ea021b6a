// tidemill eval: a policy's pass rate on tasks, through the same loops that training uses.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/display.h"
#include "core/log.h"
#include "core/version.h"
#include "run/run_config.h"
#include "run/run_driver.h"
#include "run/run_summary.h"

namespace tidemill {
namespace {

struct EvalArguments {
  std::string model, tasks, config_file, name;
  std::vector<std::string> sets;
  bool json = false;
};

int RunEval(const EvalArguments& arguments) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  const Status loaded = binder.Load(arguments.config_file, arguments.sets);
  if (!loaded.ok()) return Wrong(loaded);
  if (!arguments.model.empty()) config.model.path = arguments.model;
  if (!arguments.tasks.empty()) config.tasks.eval = arguments.tasks;
  config.tasks.train = config.tasks.eval;
  config.eval.before = true;
  config.run.steps = 0;
  if (config.tasks.eval.empty())
    return Wrong(Invalid("--tasks is missing: the JSONL file of the tasks"));
  if (Status status = CheckRunConfig(config, binder); !status.ok()) return Wrong(status);
  config.run.name = arguments.name;
  if (config.run.name.empty()) {
    config.run.name = "eval-" + std::filesystem::path(config.model.path).filename().string() + "-" +
                      std::to_string(RealClock().WallMs() / 1000);
  }
  Result<RunDirectory> directory = RunDirectory::Create(config.run.folder, config.run.name,
                                                        binder.ToToml("tidemill " + FullVersion()));
  if (!directory.ok()) return Fail(directory.status());
  DriveOptions options;
  options.run.train = false;
  std::optional<Display> display;
  if (!arguments.json || LogEnabled(LogLevel::kInfo)) {
    options.display = &display.emplace(stderr, GoalOf(config));
  }
  Result<DriveResult> result = DriveRun(config, *directory, options);
  if (!result.ok()) return Fail(result.status());
  std::fputs(
      arguments.json ? result->summary_json.c_str() : SummaryText(result->summary_json).c_str(),
      stdout);
  if (!result->status.ok()) return Fail(result->status);
  return result->interrupted ? kInterrupted : 0;
}

}  // namespace

void AddEvalCommand(CLI::App& app, Exit& exit) {
  CLI::App* eval = app.add_subcommand("eval", "Evaluate a policy on tasks");
  auto arguments = std::make_shared<EvalArguments>();
  eval->add_option("config", arguments->config_file, "TOML file; see docs/config.md");
  eval->add_option("--model", arguments->model, "Hugging Face directory of the policy");
  eval->add_option("--tasks", arguments->tasks, "Task file (JSONL)");
  eval->add_option("--name", arguments->name, "Name of the run that stores the evaluation");
  AddSetOption(*eval, arguments->sets, "Set a config key, a.b=c; may be repeated");
  eval->add_flag("--json", arguments->json,
                 "Print the summary as one JSON object on standard output");
  eval->callback([arguments, &exit] { exit.code = RunEval(*arguments); });
}

}  // namespace tidemill
