#include "run/torch/grading_host.h"

#include "reward/command_port.h"
#include "reward/interpreted_calls.h"
#include "reward/proof_port.h"
#include "reward/scorer_check.h"
#include "run/torch/store_host.h"
#include "tools/mcp_offer.h"

namespace tidemill {

Status GradingHost::Open(StoreHost* store) {
  const Roles& here = process_.request.roles;
  if (here.tools) TM_RETURN_IF_ERROR(OpenTools(store != nullptr ? store->blobs() : nullptr));
  return here.reward ? OpenScorers(store) : Ok();
}

// What one call of a tool that stays may take is its wall_ms.
void GradingHost::KeepTools(ToolOptions& options) {
  for (const CommandConfig& keys : process_.config.tools.command) {
    if (!keys.stays) continue;
    const ToolConfig& tools = process_.config.tools;
    CommandLimits limits;
    limits.time = milliseconds(keys.wall_ms > 0 ? keys.wall_ms : tools.wall_ms);
    limits.output_bytes = size_t{keys.output_kb > 0 ? keys.output_kb : tools.output_kb} << 10;
    asked_tools_[keys.name] = std::make_unique<AskedCommand>(
        StayingCommand::Options{keys.command, limits, keys.slots}, /*retries=*/0);
  }
  if (asked_tools_.empty()) return;
  options.ask = [this](const std::string& tool,
                       const std::string& question) -> Result<std::string> {
    const auto found = asked_tools_.find(tool);
    if (found == asked_tools_.end()) return Unavailable("no program for the tool " + tool);
    TM_ASSIGN_OR_RETURN(std::vector<std::string> lines, found->second->Ask({question}));
    return std::move(lines.front());
  };
}

Status GradingHost::OpenTools(BlobStore* blobs) {
  const RunConfig& config = process_.config;
  ToolExecutorOptions options;
  options.tools = ToolOptionsFrom(config);
  if (config.tools.interpret) options.tools.interpret = InterpretCalls;
  KeepTools(options.tools);
  TM_ASSIGN_OR_RETURN(options.tools.mcp, McpServersFrom(config.tools));
  options.boxes.own_user = config.tools.own_user;
  options.tools.worker = process_.alone() ? "" : process_.start.worker;
  options.shells = config.tools.shells;
  options.roots = config.tools.roots;
  options.slots = options.grade_slots =
      process_.alone() ? static_cast<size_t>(process_.threads.boxes) : config.tools.slots;
  options.metrics = process_.request.metrics;
  TM_ASSIGN_OR_RETURN(tools_, ToolExecutor::Create(std::move(options), blobs, process_.clock));
  process_.ports.tools = tools_.get();
  return Ok();
}

Status GradingHost::OpenScorers(StoreHost* store) {
  const RewardConfig& reward = process_.config.reward;
  CommandPortOptions options;
  options.limits.time = reward.command_timeout;
  options.limits.output_bytes = size_t{reward.command_output_kb} << 10;
  options.slots = reward.command_slots;
  if (!reward.command.empty()) options.commands["command"] = reward.command;
  if (!reward.review_judge.empty()) options.commands["judge"] = reward.review_judge;
  if (!reward.proof_command.empty()) options.commands[kProofQuestion] = reward.proof_command;
  if (reward.command_stays) options.stays = {"command", "judge", kProofQuestion};
  scorer_ = std::make_unique<ProofPort>(std::make_unique<CommandPort>(std::move(options)));
  process_.ports.scorer = scorer_.get();
  if (!reward.judges.empty()) {
    std::vector<JudgeConfig> judges = reward.judges;
    TM_RETURN_IF_ERROR(judge_models_.Serve(judges, process_.config.model.device));
    TM_ASSIGN_OR_RETURN(judges_, HttpJudgePort::Make(judges));
    process_.ports.judges = judges_.get();
    process_.ports.votes = &process_.votes;
  }
  // A worker of a fleet knows no tasks.
  if (store == nullptr || store->train_tasks().empty()) return Ok();
  TM_ASSIGN_OR_RETURN(const std::vector<WeightedScorer> scorers, ScorersFrom(process_.config));
  return CheckScorers(scorers, *scorer_, store->train_tasks().front(), {.retries = reward.retries});
}

std::vector<PortUse> GradingHost::Usage(Time now) const {
  if (!tools_) return {};
  const size_t slots = tools_->slots(ToolLane::kAgent) + tools_->slots(ToolLane::kGrade);
  return {{"boxes", tools_->Busy(now), static_cast<int>(slots)}};
}

std::map<std::string, double> GradingHost::Levels() const {
  if (!tools_) return {};
  return {{"slots", static_cast<double>(tools_->slots(ToolLane::kAgent))},
          {"grade_slots", static_cast<double>(tools_->slots(ToolLane::kGrade))}};
}

void GradingHost::Sink(MetricSink& sink) const {
  if (tools_) SinkBoxes(tools_->pool().stats(), sink);
}

}  // namespace tidemill
