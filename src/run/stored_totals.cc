#include "run/stored_totals.h"

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

Result<uint64_t> TrainedTokens(RunReader& reader) {
  uint64_t trained = 0;
  for (uint64_t after = 0;;) {
    TM_ASSIGN_OR_RETURN(const std::vector<StepRow> rows, reader.Steps(after, kPageRowsMax));
    for (const StepRow& row : rows) {
      const auto metrics = nlohmann::json::parse(row.metrics_json, nullptr, false);
      if (!metrics.is_object() || !metrics.contains("tokens")) continue;
      if (metrics["tokens"].is_number()) trained += metrics["tokens"].get<uint64_t>();
    }
    if (rows.size() < kPageRowsMax) return trained;
    after = rows.back().step;
  }
}

}  // namespace

Result<StoredTotals> StoredTotals::Read(RunReader& reader) {
  StoredTotals totals;
  TM_ASSIGN_OR_RETURN(totals.trained_tokens, TrainedTokens(reader));
  TM_ASSIGN_OR_RETURN(const TokenUse tokens, reader.Tokens());
  totals.drawn = tokens.drawn;
  TM_ASSIGN_OR_RETURN(const RunCounts counts, reader.Counts());
  const auto left_for = [&](const char* fate) {
    const auto found = counts.train_by_fate.find(fate);
    return found == counts.train_by_fate.end() ? uint64_t{0} : found->second;
  };
  totals.zero_variance = left_for("zero_variance");
  totals.untrainable = left_for("untrainable");
  return totals;
}

}  // namespace tidemill
