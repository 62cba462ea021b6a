#include "run/recorded_budgets.h"

#include <nlohmann/json.hpp>

#include "store/run_reader.h"

namespace tidemill {

Result<std::map<uint64_t, int64_t>> RecordedBudgets(const std::string& db_path, uint64_t after,
                                                    const std::string& policy) {
  TM_ASSIGN_OR_RETURN(const auto reader, RunReader::Open(db_path));
  TM_ASSIGN_OR_RETURN(const std::vector<OwnedStep> owned, reader->OwnedSteps());
  std::map<uint64_t, uint64_t> own;  // the policy's steps by those of the run
  for (const OwnedStep& step : owned) {
    if (step.policy == policy) own[step.step] = step.policy_step;
  }
  std::map<uint64_t, int64_t> budgets;
  while (true) {
    TM_ASSIGN_OR_RETURN(const std::vector<StepRow> steps, reader->Steps(after, kPageRowsMax));
    for (const StepRow& step : steps) {
      const auto metrics = nlohmann::json::parse(step.metrics_json, nullptr, false);
      if (!metrics.is_object() || step.step == 0 || !own.contains(step.step)) continue;
      const auto budget = metrics.find("token_budget");
      if (budget != metrics.end() && budget->is_number()) {
        budgets[own.at(step.step) - 1] = static_cast<int64_t>(budget->get<double>());
      }
    }
    if (steps.size() < kPageRowsMax) return budgets;
    after = steps.back().step;
  }
}

}  // namespace tidemill
