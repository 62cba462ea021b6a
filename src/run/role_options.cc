#include "run/role_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/torch/device.h"
#include "run/make_trainer.h"

namespace tidemill {
namespace {

CommandTool CommandToolFrom(const RunConfig::CommandKeys& keys) {
  CommandTool tool;
  tool.name = keys.name;
  tool.description = keys.description;
  tool.command = keys.command;
  tool.files = keys.files;
  if (keys.parser == "diagnostics") tool.parser = CommandTool::Parser::kDiagnostics;
  if (keys.parser == "tests") tool.parser = CommandTool::Parser::kTests;
  tool.changes = keys.changes;
  tool.limits.set_wall_ms(keys.wall_ms);
  tool.limits.set_cpu_ms(keys.cpu_ms);
  tool.limits.set_memory_mb(keys.memory_mb);
  tool.limits.set_processes(keys.processes);
  tool.limits.set_output_kb(keys.output_kb);
  tool.limits.set_disk_mb(keys.disk_mb);
  return tool;
}

ToolDescription Describe(const CommandTool& tool) {
  nlohmann::ordered_json schema = {{"type", "object"},
                                   {"properties", nlohmann::ordered_json::object()}};
  for (const std::string& argument : tool.Arguments()) {
    schema["properties"][argument] = {{"type", "string"}};
    schema["required"].push_back(argument);
  }
  return {tool.name, tool.description, schema.dump()};
}

}  // namespace

Result<EngineOptions> EngineOptionsFrom(const RunConfig& config, int threads) {
  EngineOptions options;
  options.max_context = static_cast<int32_t>(config.rollout.max_context);
  options.max_running = 1024;
  options.prefill_chunk = static_cast<int32_t>(config.rollout.prefill_chunk);
  options.cache_bytes = uint64_t{config.rollout.cache_mb} << 20;
  if (config.rollout.cache_mb == 0) {
    TM_ASSIGN_OR_RETURN(const std::string device, DeviceOf(config));
    TM_ASSIGN_OR_RETURN(options.cache_bytes, DefaultCacheBytes(device));
  }
  options.threads = threads;
  options.versions = static_cast<int32_t>(config.engine.versions);
  options.live_share = config.gateway.share;
  return options;
}

EngineThreadOptions EngineThreadOptionsFrom(const RunConfig& config) {
  EngineThreadOptions options;
  options.cache_on_swap =
      config.rollout.cache_on_swap == "keep" ? CacheOnSwap::kKeep : CacheOnSwap::kRebuild;
  // Where every step waits for the samples of its own weights, none may come from older ones.
  options.wait_for_weights = config.run.mode != "async" || config.staleness.max_steps == 0;
  return options;
}

RolloutOptions RolloutOptionsFrom(const RunConfig& config, int32_t max_context) {
  RolloutOptions options;
  options.max_episodes = config.rollout.max_in_flight * 2;
  options.max_context = max_context;
  options.limits.observation_tokens = config.rollout.observation_tokens;
  options.limits.calls_per_turn = config.rollout.calls_per_turn;
  options.limits.tool_retries = config.rollout.tool_retries;
  options.limits.stale_on_unavailable = config.rollout.on_unavailable == "stale";
  options.lease_period = LeasePeriod(config);
  options.call_patience = config.bus.patience;
  return options;
}

ToolExecutorOptions ToolExecutorOptionsFrom(const RunConfig& config, int slots) {
  ToolExecutorOptions options;
  options.tools.limits.wall = milliseconds(config.tools.wall_ms);
  options.tools.limits.cpu = milliseconds(config.tools.cpu_ms);
  options.tools.limits.memory_bytes = uint64_t{config.tools.memory_mb} << 20;
  options.tools.limits.processes = config.tools.processes;
  options.tools.limits.output_bytes = uint64_t{config.tools.output_kb} << 10;
  options.tools.limits.disk_bytes = uint64_t{config.tools.disk_mb} << 20;
  for (const RunConfig::CommandKeys& keys : config.tools.command) {
    options.tools.commands.push_back(CommandToolFrom(keys));
  }
  options.slots = options.grade_slots = static_cast<size_t>(slots);
  return options;
}

ProtocolOptions ProtocolOptionsFrom(const RunConfig& config) {
  ProtocolOptions options;
  options.system_prompt = config.model.system_prompt;
  for (const RunConfig::CommandKeys& keys : config.tools.command) {
    options.tools.push_back(Describe(CommandToolFrom(keys)));
  }
  return options;
}

Status CheckTools(const std::vector<v1::Task>& tasks, const ProtocolOptions& options) {
  for (const v1::Task& task : tasks) {
    for (const std::string& wanted : task.tools()) {
      const bool known = std::any_of(options.tools.begin(), options.tools.end(),
                                     [&](const ToolDescription& t) { return t.name == wanted; });
      if (known) continue;
      std::string names;
      for (const ToolDescription& tool : options.tools) names += " " + tool.name;
      return Invalid("task " + task.id() + " wants the tool \"" + wanted +
                     "\"; there are:" + names);
    }
  }
  return Ok();
}

ToolLoopOptions ToolLoopOptionsFrom(const RunConfig& config) {
  ToolLoopOptions options;
  options.lease_period = LeasePeriod(config);
  options.cache_results = config.tools.cache;
  options.wait = {config.tools.wait, config.tools.wait_tail};
  return options;
}

}  // namespace tidemill
