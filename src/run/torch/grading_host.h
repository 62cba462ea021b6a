// The ports that run and judge the agent's work: boxes for tools and gradings, the scorers'
// commands, and the models that judge.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "judge/http_judge_port.h"
#include "reward/asked_command.h"
#include "reward/scorer_port.h"
#include "run/process.h"
#include "run/torch/judge_models.h"
#include "tools/tool_executor.h"

namespace tidemill {

class StoreHost;

class GradingHost final : public Host {
 public:
  explicit GradingHost(Process& process) : process_(process) {}
  // `store`: where the learner is in this process, else null.
  Status Open(StoreHost* store);

  std::vector<PortUse> Usage(Time now) const override;
  // For the autoscaler.
  std::map<std::string, double> Levels() const override;
  void Sink(MetricSink& sink) const override;

 private:
  Status OpenTools(BlobStore* blobs);
  void KeepTools(ToolOptions& options);
  Status OpenScorers(StoreHost* store);

  Process& process_;
  std::map<std::string, std::unique_ptr<AskedCommand>> asked_tools_;  // that stay, by name
  std::unique_ptr<ToolExecutor> tools_;  // after them: its threads ask them
  std::unique_ptr<ScorerPort> scorer_;
  JudgeModels judge_models_;
  std::unique_ptr<JudgePort> judges_;
};

}  // namespace tidemill
