// tidemill bench: speed, as ratios against a peer or a limit measured in the same run.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>

#include "bench/agents_bench.h"
#include "bench/allreduce_bench.h"
#include "bench/bus_bench.h"
#include "bench/engine_bench.h"
#include "bench/gateway_bench.h"
#include "bench/learner_bench.h"
#include "bench/memory_bench.h"
#include "bench/overlap_bench.h"
#include "bench/proof_bench.h"
#include "bench/publish_bench.h"
#include "bench/sandbox_bench.h"
#include "bench/store_bench.h"
#include "bench/tokenizer_bench.h"
#include "cli/bench_disk.h"
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
                   "\" must be MODE:BATCH:IN_FLIGHT with mode sync or async and a batch that is a "
                   "multiple of 8, like async:256:1024");
  }
  return setting;
}

void AddOverlap(CLI::App& bench, Exit& exit) {
  CLI::App* command = bench.add_subcommand(
      "overlap",
      "Compare async, one-step and sync on the same work, with real and with slower tools");
  auto options = std::make_shared<OverlapOptions>();
  auto json = std::make_shared<bool>(false);
  auto settings = std::make_shared<std::vector<std::string>>();
  options->folder = "build/overlap";
  command->add_option("--folder", options->folder, "Output folder; must not exist")
      ->capture_default_str();
  command->add_option("--model", options->model, "Policy to train; default: one is warmed up");
  command->add_option("--config", options->config, "TOML file that overrides the bench's config");
  command->add_option("--episodes", options->episodes, "Episodes per run")->capture_default_str();
  command->add_option("--seeds", options->seeds, "Seeds; one run per mode and seed (1,2,3)")
      ->delimiter(',');
  command->add_option("--mixes", options->mixes, "Tool latency to add: none,200ms,1s")
      ->delimiter(',');
  command->add_option("--modes", options->modes, "Modes to run: sync,one-step,async; default: all")
      ->delimiter(',');
  AddSetOption(*command, options->sets, "Set a config key of the runs, a.b=c; may be repeated");
  command
      ->add_option("--settings", *settings,
                   "MODE:BATCH:IN_FLIGHT instead of the default sweep; several of a mode are swept "
                   "(sync:1024:1024,async:256:1024,async:256:2048)")
      ->delimiter(',');
  command->add_flag("--json", *json, "Print one JSON object on standard output");
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

void AddServedOptions(CLI::App& command, ServedBenchOptions& served) {
  command.add_option("--model", served.model,
                     "Model directory; default: random weights, 2 layers of width 64");
  command.add_option("--device", served.device, "cpu, cuda, cuda:N or auto")->capture_default_str();
  command.add_option("--threads", served.threads, "Threads of the engine")->capture_default_str();
}

// Prints a report; 1 where it missed a bound.
template <typename Report>
int PrintAndJudge(const Result<Report>& report, bool json) {
  const int code = Print(report, json);
  return report.ok() && !report->Misses().empty() ? 1 : code;
}

void AddAgentsBench(CLI::App& bench, Exit& exit) {
  CLI::App* command = bench.add_subcommand(
      "agents", "Episodes that are programs against the same by the built-in protocol");
  auto options = std::make_shared<AgentsBenchOptions>();
  auto json = std::make_shared<bool>(false);
  command->add_option("--agent", options->agent, "The example agent")->capture_default_str();
  command->add_option("--tasks", options->tasks, "Tasks, two episodes each")->capture_default_str();
  command->add_option("--waiting", options->waiting, "Programs that wait for the model; 0: none")
      ->capture_default_str();
  command->add_flag("--json", *json, "Print one JSON object on standard output");
  command->callback([options, json, &exit] {
    const Result<AgentsBenchReport> report = RunAgentsBench(*options);
    exit.code = Print(report, *json);
    if (report.ok() && !report->Holds()) exit.code = 1;
  });
}

void AddGatewayBench(CLI::App& bench, Exit& exit) {
  CLI::App* command = bench.add_subcommand(
      "gateway",
      "First token and tokens per second through HTTP against the bare engine; on a GPU with "
      "bounds (exit status 1: one was missed)");
  auto options = std::make_shared<GatewayBenchOptions>();
  auto json = std::make_shared<bool>(false);
  AddServedOptions(*command, options->served);
  command->add_option("--streams", options->streams, "Streams at once")->capture_default_str();
  command->add_option("--tokens", options->tokens, "Tokens per answer")->capture_default_str();
  command->add_option("--prompt", options->prompt, "Tokens per prompt")->capture_default_str();
  command->add_option("--long-prompt", options->long_prompt, "Tokens of the long, cold prompts")
      ->capture_default_str();
  command->add_option("--requests", options->requests, "Requests for the time to the first token")
      ->capture_default_str();
  command->add_flag("--json", *json, "Print one JSON object on standard output");
  command->callback(
      [options, json, &exit] { exit.code = PrintAndJudge(RunGatewayBench(*options), *json); });
}

void AddGatewayLoad(CLI::App& bench, Exit& exit) {
  CLI::App* command = bench.add_subcommand(
      "gateway-load",
      "Many streams and requests while weights are swapped (exit status 1: a stream broke)");
  auto options = std::make_shared<GatewayLoadOptions>();
  auto json = std::make_shared<bool>(false);
  AddServedOptions(*command, options->served);
  command->add_option("--streams", options->streams, "Streams at once")->capture_default_str();
  command->add_option("--requests", options->requests, "Requests altogether")
      ->capture_default_str();
  command->add_option("--swaps", options->swaps, "Weight swaps meanwhile")->capture_default_str();
  command->add_option("--tokens", options->tokens, "Tokens per answer")->capture_default_str();
  command->add_option("--prompt", options->prompt, "Tokens per prompt")->capture_default_str();
  command->add_flag("--json", *json, "Print one JSON object on standard output");
  command->callback(
      [options, json, &exit] { exit.code = PrintAndJudge(RunGatewayLoad(*options), *json); });
}

void AddMemoryBench(CLI::App& bench, Exit& exit) {
  CLI::App* command = bench.add_subcommand(
      "memory",
      "Ways to use experience on projects, and how quickly cases are found (exit status 1: a bound "
      "was missed)");
  auto options = std::make_shared<MemoryBenchOptions>();
  auto json = std::make_shared<bool>(false);
  auto searched = std::make_shared<uint64_t>(100'000);
  command->add_option("--model", options->model, "Policy warmed up on other projects");
  command->add_flag("--perfect-reader", options->perfect_reader,
                    "Instead of a policy a reader that makes no mistake: what retrieval can reach");
  command->add_option("--seeds", options->seeds, "Seeds (1,2,3)")->delimiter(',');
  command->add_option("--projects", options->projects, "Projects per seed")->capture_default_str();
  command->add_option("--before", options->before, "Tasks of a project before the change")
      ->capture_default_str();
  command->add_option("--after", options->after, "Tasks of a project after the change")
      ->capture_default_str();
  command->add_option("--held-out", options->held_out, "Held-out tasks per project")
      ->capture_default_str();
  command->add_option("--members", options->members, "Episodes per task")->capture_default_str();
  command->add_option("--cases", options->cases, "Cases shown at most")->capture_default_str();
  command->add_option("--arms", options->arms, "Arms to run; default: all")
      ->delimiter(';')
      ->check(CLI::IsMember(MemoryArms()));
  command->add_option("--threads", options->threads, "Threads of the engine")
      ->capture_default_str();
  command
      ->add_option("--key-layers", options->key_layers,
                   "Layers of the policy behind the hidden states; 0: half")
      ->capture_default_str();
  command->add_option("--search", *searched, "Cases of the search measurement; 0: none")
      ->capture_default_str();
  command->add_flag("--json", *json, "Print one JSON object on standard output");
  command->callback([options, json, searched, &exit] {
    Result<MemoryBenchReport> report = RunMemoryBench(*options);
    if (report.ok() && *searched > 0) report->searches = MeasureSearches(*searched, 1000);
    exit.code = PrintAndJudge(report, *json);
  });
}

}  // namespace

void AddBenchCommand(CLI::App& app, Exit& exit) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure one part against a peer or a limit in the same run");
  bench->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  auto add = [&](const char* name, const char* text, std::function<int()> run) {
    CLI::App* command = bench->add_subcommand(name, text);
    command->add_flag("--json", *json, "Print one JSON object on standard output");
    command->callback([run = std::move(run), &exit] { exit.code = run(); });
    return command;
  };
  auto bus = std::make_shared<BusBenchOptions>();
  add("bus", "Publish, receive and acknowledge; on Redis against a bare pipeline", [json, bus] {
    return Print(RunBusBench(*bus), *json);
  })->add_option("--bus", bus->redis_url, "redis://HOST:PORT/DB; default: the embedded bus");
  auto store = std::make_shared<StoreBenchOptions>();
  add("store", "Synced trajectories per second against plain file writes", [json, store] {
    return Print(RunStoreBench(*store), *json);
  })->add_option("--folder", store->directory, "Folder on the disk to measure");
  add("sandbox", "A request on a warm pool against a plain spawn of the same command", [json] {
    const Result<SandboxBenchReport> report = RunSandboxBench({});
    const int code = Print(report, *json);
    return report.ok() && !report->Clean() ? 1 : code;
  });
  add("proof", "A verdict of the prover against the same answer in a box", [json] {
    const Result<ProofBenchReport> report = RunProofBench({});
    const int code = Print(report, *json);
    return report.ok() && !report->Holds() ? 1 : code;
  });
  add("learner", "Training against the matrix products it needs",
      [json] { return Print(RunLearnerBench({}), *json); });
  add("allreduce", "All-reduce of a gradient over ranks against a plain copy",
      [json] { return Print(RunAllreduceBench({}), *json); });
  add("publish", "Publishing weights: time to the first token and pause, against a plain copy",
      [json] { return Print(RunPublishBench({}), *json); });
  add("engine", "Decoding against the same in plain libtorch calls",
      [json] { return Print(RunEngineBench({}), *json); });
  AddOverlap(*bench, exit);
  AddGatewayBench(*bench, exit);
  AddGatewayLoad(*bench, exit);
  AddAgentsBench(*bench, exit);
  AddMemoryBench(*bench, exit);
  AddDiskBench(*bench, exit);
  auto tokenizer = std::make_shared<TokenizerBenchOptions>();
  add("tokenizer", "Encoding against splitting alone",
      [json, tokenizer] { return Print(RunTokenizerBench(*tokenizer), *json); })
      ->add_option("--model", tokenizer->model_dir,
                   "Model directory of the tokenizer; default: one is learnt");
}

}  // namespace tidemill
