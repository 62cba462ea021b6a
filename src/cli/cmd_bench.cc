// tidemill bench: speed, as ratios against a peer or a limit measured in the same run.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>

#include "bench/allreduce_bench.h"
#include "bench/bus_bench.h"
#include "bench/engine_bench.h"
#include "bench/learner_bench.h"
#include "bench/overlap_bench.h"
#include "bench/publish_bench.h"
#include "bench/sandbox_bench.h"
#include "bench/store_bench.h"
#include "bench/tokenizer_bench.h"
#include "cli/commands.h"
#include "core/child_process.h"

namespace tidemill {
namespace {

// Prints a report as text or JSON.
template <typename Report>
int Print(const Result<Report>& report, bool json) {
  if (!report.ok()) return Fail(report.status());
  std::printf("%s\n", (json ? report->ToJson() : report->ToText()).c_str());
  return 0;
}

// "async:256:1024"
Result<OverlapSetting> ParseSetting(const std::string& text) {
  OverlapSetting setting;
  char mode[9] = {};
  int end = 0;
  const int read = std::sscanf(text.c_str(), "%8[a-z]:%lu:%lu%n", mode, &setting.batch,
                               &setting.in_flight, &end);
  setting.mode = mode;
  if (read != 3 || end != static_cast<int>(text.size()) || setting.batch < 8 ||
      setting.batch % 8 != 0 || setting.in_flight < setting.batch ||
      (setting.mode != "sync" && setting.mode != "async")) {
    return Invalid("--settings: \"" + text +
                   "\" must be sync or async, episodes a step (a multiple of 8) and at once, like "
                   "async:256:1024");
  }
  return setting;
}

void AddOverlap(CLI::App& bench, Exit& exit) {
  CLI::App* command = bench.add_subcommand(
      "overlap", "async, one-step and sync on the same work, with real and with slower tools");
  auto options = std::make_shared<OverlapOptions>();
  auto json = std::make_shared<bool>(false);
  auto settings = std::make_shared<std::vector<std::string>>();
  options->folder = "build/overlap";
  command->add_option("--folder", options->folder, "For what it makes; must not exist")
      ->capture_default_str();
  command->add_option("--model", options->model, "Policy to train; without it one is warmed up");
  command->add_option("--config", options->config, "TOML added to the bench's own");
  command->add_option("--episodes", options->episodes, "Of a run")->capture_default_str();
  command->add_option("--seeds", options->seeds, "Runs of each mode (1,2,3)")->delimiter(',');
  command->add_option("--mixes", options->mixes, "Waiting added to tools: none,200ms,1s")
      ->delimiter(',');
  command->add_option("--modes", options->modes, "Of sync,one-step,async; all without it")
      ->delimiter(',');
  AddSetOption(*command, options->sets, "Change one key of the runs, a.b=c; may be repeated");
  command
      ->add_option("--settings", *settings,
                   "MODE:BATCH:AT_ONCE instead of the usual sweep; several of a mode are swept "
                   "(sync:1024:1024,async:256:1024,async:256:2048)")
      ->delimiter(',');
  command->add_flag("--json", *json, "One JSON object on standard output");
  command->callback([options, settings, json, &exit] {
    for (const std::string& text : *settings) {
      const Result<OverlapSetting> setting = ParseSetting(text);
      if (!setting.ok()) {
        exit.code = Fail(setting.status());
        return;
      }
      options->settings.push_back(*setting);
    }
    options->program = ThisProgram();
    options->folder = std::filesystem::absolute(options->folder).string();
    exit.code = Print(RunOverlapBench(*options), *json);
  });
}

}  // namespace

void AddBenchCommand(CLI::App& app, Exit& exit) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure one part, beside a peer or a limit of the same run");
  bench->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  auto add = [&](const char* name, const char* text, std::function<int()> run) {
    CLI::App* command = bench->add_subcommand(name, text);
    command->add_flag("--json", *json, "One JSON object on standard output");
    command->callback([run = std::move(run), &exit] { exit.code = run(); });
    return command;
  };
  auto bus = std::make_shared<BusBenchOptions>();
  add("bus", "Publish, receive, acknowledge; on Redis beside a bare pipeline", [json, bus] {
    return Print(RunBusBench(*bus), *json);
  })->add_option("--bus", bus->redis_url, "redis://HOST:PORT/DB; without it the embedded bus");
  auto store = std::make_shared<StoreBenchOptions>();
  add("store", "Synced trajectories a second beside plain file writes", [json, store] {
    return Print(RunStoreBench(*store), *json);
  })->add_option("--folder", store->directory, "On the disk to measure");
  add("sandbox", "A request on a warm pool beside the plain spawn of the same command", [json] {
    const Result<SandboxBenchReport> report = RunSandboxBench({});
    const int code = Print(report, *json);
    return report.ok() && !report->Clean() ? 1 : code;
  });
  add("learner", "Training beside the matrix products it needs",
      [json] { return Print(RunLearnerBench({}), *json); });
  add("allreduce", "Adding up a gradient over ranks beside a plain copy",
      [json] { return Print(RunAllreduceBench({}), *json); });
  add("publish", "New weights: until the first token, the pause, beside a plain copy",
      [json] { return Print(RunPublishBench({}), *json); });
  add("engine", "Decoding beside the same written with plain libtorch calls",
      [json] { return Print(RunEngineBench({}), *json); });
  AddOverlap(*bench, exit);
  auto tokenizer = std::make_shared<TokenizerBenchOptions>();
  add("tokenizer", "Encoding beside splitting alone", [json, tokenizer] {
    return Print(RunTokenizerBench(*tokenizer), *json);
  })->add_option("--model", tokenizer->model_dir, "Whose tokenizer; without it one is learnt");
}

}  // namespace tidemill
