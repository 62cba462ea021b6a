// tidemill plan: how much memory a run takes, before anything is loaded; with --fleet or --like,
// how fast a fleet runs it.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/plan_fleet.h"
#include "core/memory.h"
#include "core/shipped_files.h"
#include "model/torch/device.h"
#include "run/plan_run.h"
#include "run/run_config.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments {
  std::string model;
  std::string config_file;
  std::vector<std::string> sets;
  std::string memory;
  std::string device;
  bool json = false;
  FleetPlanArguments fleet{};
};

// A GPU that is not here is planned for by its memory.
Result<PlanInput> InputOf(const PlanArguments& arguments, RunConfig& config) {
  if (!arguments.device.empty()) config.model.device = arguments.device;
  const bool elsewhere = !arguments.memory.empty();
  const std::string& wanted = config.model.device;
  std::string device = wanted == "auto" && elsewhere ? "cuda" : wanted;
  if (!elsewhere) {
    TM_ASSIGN_OR_RETURN(device, ResolveDevice(wanted));
  }
  TM_ASSIGN_OR_RETURN(const ModelConfig model, ReadModelConfig(config.model.path));
  TM_ASSIGN_OR_RETURN(PlanInput input, PlanInputFrom(config, model, IsGpu(device)));
  if (elsewhere) {
    TM_ASSIGN_OR_RETURN(input.memory_bytes, ParseMemory(arguments.memory));
  } else if (input.gpu) {
    TM_ASSIGN_OR_RETURN(input.memory_bytes, FreeDeviceBytes(device));
    input.host_memory_bytes = AvailableMemoryBytes();
  } else {
    input.memory_bytes = AvailableMemoryBytes();
  }
  return input;
}

void PrintPlanJson(const PlanInput& input, const MemoryPlan& plan) {
  Json rows = Json::array();
  for (const PlanRow& row : plan.rows) {
    rows.push_back({{"part", row.part}, {"what", row.what}, {"bytes", row.bytes}});
  }
  Json choices = Json::array();
  for (const MemoryPlan::Choice& choice : plan.would_fit) {
    choices.push_back({{"settings", choice.settings}, {"bytes", choice.total_bytes}});
  }
  PrintJson({{"parameters", input.model.ParameterCount()},
             {"active_parameters", input.model.ActiveParameterCount()},
             {"device", input.gpu ? "cuda" : "cpu"},
             {"rows", rows},
             {"bytes", plan.total_bytes},
             {"memory", plan.memory_bytes},
             {"fits", plan.fits()},
             {"token_budget", plan.token_budget},
             {"recompute", plan.recompute},
             {"moments", plan.block_moments ? "int8" : "float32"},
             {"optimizer_state", plan.state_on_host || !input.gpu ? "host" : "gpu"},
             {"host_bytes", plan.host_bytes},
             {"cache_bytes", plan.cache_bytes},
             {"would_fit", choices}});
}

void PrintPlanTable(const PlanInput& input, const MemoryPlan& plan) {
  const auto billions = [](int64_t count) { return static_cast<double>(count) / 1e9; };
  std::printf("%.2fB parameters", billions(input.model.ParameterCount()));
  if (input.model.experts.count > 0) {
    std::printf(" (%.2fB of a token)", billions(input.model.ActiveParameterCount()));
  }
  std::printf(", %s, token budget %lld%s%s%s\n",
              input.lora_rank > 0 ? ("LoRA rank " + std::to_string(input.lora_rank)).c_str()
                                  : "all weights trained",
              static_cast<long long>(plan.token_budget), plan.recompute ? ", recomputation" : "",
              plan.block_moments ? ", moments in int8" : "",
              plan.state_on_host ? ", optimizer state on the host" : "");
  for (const PlanRow& row : plan.rows) {
    std::printf("  %-8s %-38s %10s\n", row.part.c_str(), row.what.c_str(),
                BytesText(row.bytes).c_str());
  }
  std::printf("  %-47s %10s\n", "together", BytesText(plan.total_bytes).c_str());
  if (plan.state_on_host) {
    std::printf("  %-47s %10s\n", "besides, of the host: optimizer state",
                BytesText(plan.host_bytes).c_str());
  }
  if (plan.memory_bytes == 0) return;
  std::printf("  %-47s %10s\n", "there is", BytesText(plan.memory_bytes).c_str());
  if (plan.fits()) {
    std::printf("fits\n");
    return;
  }
  std::printf(plan.fits_host() ? "does not fit\n" : "does not fit: the host has %s\n",
              BytesText(plan.host_memory_bytes).c_str());
  for (const MemoryPlan::Choice& choice : plan.would_fit) {
    std::printf("  would fit: %s (%s)\n", choice.settings.c_str(),
                BytesText(choice.total_bytes).c_str());
  }
  if (plan.would_fit.empty()) std::printf("  no smaller settings of this model fit\n");
}

int RunPlan(PlanArguments& arguments) {
  FleetPlanArguments& fleet = arguments.fleet;
  if (!fleet.fleet.empty() || !fleet.like.empty()) {
    fleet.config_file = arguments.config_file;
    fleet.sets = arguments.sets;
    fleet.model = arguments.model;
    fleet.json = arguments.json;
    return RunFleetPlan(fleet);
  }
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  if (Status status = binder.Load(arguments.config_file, arguments.sets); !status.ok()) {
    return Wrong(status);
  }
  if (!arguments.model.empty()) config.model.path = ShapeFolder(arguments.model);
  if (config.tasks.train.empty()) config.tasks.train = "any";  // a plan needs none
  if (Status status = CheckRunConfig(config, binder); !status.ok()) return Wrong(status);
  const Result<PlanInput> input = InputOf(arguments, config);
  if (!input.ok()) return Fail(input.status());
  const MemoryPlan plan = PlanMemory(*input);
  if (arguments.json) {
    PrintPlanJson(*input, plan);
  } else {
    PrintPlanTable(*input, plan);
  }
  return plan.fits() ? 0 : 1;
}

void AddFleetOptions(CLI::App& command, FleetPlanArguments& fleet) {
  command.add_option("--fleet", fleet.fleet,
                     "Step the loops under virtual time on 8xH100, 2x8xH200+64cpu, 64cpu or a "
                     "fleet file (.toml): rates, lag and what bounds them");
  command.add_option("--like", fleet.like,
                     "Folder of a run: episodes and times as it recorded them; without --fleet on "
                     "its machine, beside what it did");
  command
      .add_option("--cores", fleet.cores,
                  "Cores of the machine the run of --like had; default: "
                  "this machine's")
      ->check(CLI::PositiveNumber);
  command.add_option("--gpu", fleet.gpu, "The GPUs of a fleet file: A100, H100, H200 or L40S");
  command.add_option("--episode", fleet.episode,
                     "Episodes without --like: turns=4,prompt_tokens=512,turn_tokens=256,"
                     "observation_tokens=256,tool_s=1,grade_s=2,spread=0.7,pass_rate=0.5");
  command.add_option("--price", fleet.price, "Of the fleet, an hour")->check(CLI::PositiveNumber);
  command.add_flag("--best", fleet.best,
                   "Search learner.ranks, rollout.max_in_flight and staleness.max_steps, and say "
                   "what one more GPU or ten more cores would buy");
  command.add_option("--max-lag", fleet.lag_max, "Of --best: the largest mean lag, in steps")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--virtual-seconds", fleet.seconds, "The longest a plan runs, in virtual time")
      ->check(CLI::PositiveNumber);
}

}  // namespace

void AddPlanCommand(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "plan",
      "Show how much memory a run takes (exit status 1: it does not fit), or how fast a fleet "
      "runs it");
  const auto arguments = std::make_shared<PlanArguments>();
  command->add_option(
      "--model", arguments->model,
      "Directory with a config.json, or a shape that comes with the program (0.5b, 1.5b, "
      "3b, 7b, 14b, 32b, 30b-a3b, 235b-a22b); default: model.path of the config");
  command->add_option("config,--config", arguments->config_file, "TOML file of the run");
  AddSetOption(*command, arguments->sets, "Set a config key, a.b=c; may be repeated");
  command->add_option("--memory", arguments->memory,
                      "Plan for a device with this much memory, such as 80GB; default: this "
                      "machine's");
  command->add_option("--device", arguments->device,
                      "cpu or cuda; default: model.device, with --memory a GPU");
  AddFleetOptions(*command, arguments->fleet);
  command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  command->callback([arguments, &exit] { exit.code = RunPlan(*arguments); });
}

}  // namespace tidemill
