// tidemill worker ROLE: one role of a run alone, on Redis Streams. Joins and leaves at any time; on
// SIGTERM it takes nothing new, finishes or gives back what it holds, and leaves.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "bus/redis/redis_bus.h"
#include "bus/standard_topics.h"
#include "cli/commands.h"
#include "cli/run_config.h"
#include "core/log.h"
#include "core/loop_runner.h"
#include "core/threads.h"
#include "reward/reward_loop.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

struct WorkerArguments {
  std::string role, url, run, config_file;
  std::vector<std::string> sets;
};

std::atomic<bool> asked_to_stop{false};

std::string WorkerName(const std::string& role) {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  return role + "-" + host + "-" + std::to_string(getpid());
}

int Fail(const Status& status) {
  std::fprintf(stderr, "tidemill worker: %s\n", status.message().c_str());
  return status.code() == Code::kInvalid ? 2 : 1;
}

// Runs the loop until a signal asks to stop, then drains it.
int Serve(Loop& loop, const std::string& worker) {
  struct sigaction action = {};
  action.sa_handler = [](int) { asked_to_stop = true; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  LoopRunner runner;
  runner.Add(loop);
  if (const Status started = runner.Start(); !started.ok()) return Fail(started);
  LogInfo("worker " + worker + " serves");
  while (!asked_to_stop && !runner.WaitFor(milliseconds(100))) {
  }
  const Status ended = runner.Drain(std::chrono::seconds(30));
  if (!ended.ok()) return Fail(ended);
  LogInfo("worker " + worker + " left");
  return 0;
}

int RunTools(Bus& bus, const RunConfig& config, const std::string& worker, const Clock& clock) {
  ToolExecutorOptions options;
  options.tools.limits.wall = milliseconds(config.tools.wall_ms);
  options.tools.limits.cpu = milliseconds(config.tools.cpu_ms);
  options.tools.limits.memory_bytes = uint64_t{config.tools.memory_mb} << 20;
  options.tools.limits.processes = config.tools.processes;
  options.tools.limits.output_bytes = uint64_t{config.tools.output_kb} << 10;
  options.tools.limits.disk_bytes = uint64_t{config.tools.disk_mb} << 20;
  options.tools.worker = worker;
  options.slots = options.grade_slots = config.tools.slots;
  Result<std::unique_ptr<ToolExecutor>> executor = ToolExecutor::Create(options, nullptr, clock);
  if (!executor.ok()) return Fail(executor.status());
  ToolLoopOptions loop_options;
  loop_options.worker = worker;
  loop_options.lease_period = config.bus.lease / 3;
  loop_options.cache_results = config.tools.cache;
  ToolLoop loop(bus, **executor, clock, loop_options);
  return Serve(loop, worker);
}

int RunReward(Bus& bus, const RunConfig& config, const std::string& worker, const Clock& clock) {
  std::vector<WeightedScorer> scorers;
  for (const auto& [name, weight] : config.reward.weights) {
    Result<std::unique_ptr<Scorer>> scorer =
        NewScorer({.name = name,
                   .all_or_nothing = config.reward.all_or_nothing,
                   .penalty = config.reward.lint_penalty});
    if (!scorer.ok()) return Fail(scorer.status());
    scorers.push_back({std::move(*scorer), weight});
  }
  RewardOptions options;
  options.worker = worker;
  options.retries = config.reward.retries;
  options.turn_weight = config.reward.turn_weight;
  options.turn_discount = config.reward.turn_discount;
  options.lease_period = config.bus.lease / 3;
  RewardLoop loop(bus, clock, std::move(scorers), options);
  return Serve(loop, worker);
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
  const std::string worker = WorkerName(arguments.role);
  RedisBusOptions options;
  options.url = arguments.url;
  options.run = arguments.run;
  options.client = worker;
  Result<std::unique_ptr<RedisBus>> bus = RedisBus::Connect(std::move(options));
  if (!bus.ok()) return Fail(bus.status());
  const Status opened =
      OpenStandardTopics(**bus, {.lease = config.bus.lease, .capacity = config.bus.capacity});
  if (!opened.ok()) return Fail(opened);
  const RealClock clock;
  return arguments.role == "tools" ? RunTools(**bus, config, worker, clock)
                                   : RunReward(**bus, config, worker, clock);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, Exit& exit) {
  CLI::App* worker = app.add_subcommand("worker", "Serve one role of a run on Redis Streams");
  auto arguments = std::make_shared<WorkerArguments>();
  worker->add_option("role", arguments->role, "tools or reward")
      ->required()
      ->check(CLI::IsMember({"tools", "reward"}));
  worker->add_option("--bus", arguments->url, "redis://HOST:PORT/DB")->required();
  worker->add_option("--run", arguments->run, "Name of the run")->required();
  worker->add_option("--config", arguments->config_file, "TOML file; see docs/training.md");
  worker->add_option("--set", arguments->sets, "Change one key, a.b=c; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  worker->callback([arguments, &exit] { exit.code = RunWorker(*arguments); });
}

}  // namespace tidemill
