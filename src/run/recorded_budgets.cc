#include "run/recorded_budgets.h"

#include <nlohmann/json.hpp>

#include "store/run_reader.h"

namespace tidemill {

Result<std::map<uint64_t, int64_t>> RecordedBudgets(const std::string& db_path, uint64_t after) {
  TM_ASSIGN_OR_RETURN(const auto reader, RunReader::Open(db_path));
  std::map<uint64_t, int64_t> budgets;
  while (true) {
    TM_ASSIGN_OR_RETURN(const std::vector<StepRow> steps, reader->Steps(after, kPageRowsMax));
    for (const StepRow& step : steps) {
      const auto metrics = nlohmann::json::parse(step.metrics_json, nullptr, false);
      if (!metrics.is_object() || step.step == 0) continue;
      const auto budget = metrics.find("token_budget");
      if (budget != metrics.end() && budget->is_number()) {
        budgets[step.step - 1] = static_cast<int64_t>(budget->get<double>());
      }
    }
    if (steps.size() < kPageRowsMax) return budgets;
    after = steps.back().step;
  }
}

}  // namespace tidemill
