#include "run/live_options.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/files.h"
#include "gateway/api_keys.h"
#include "store/run_directory.h"

namespace tidemill {

Result<LiveOptions> LiveOptionsFrom(const RunConfig& config) {
  LiveOptions options;
  options.idle = config.live.idle;
  TM_ASSIGN_OR_RETURN(Redaction redaction, Redaction::Make(config.live.redact));
  options.redaction = std::make_shared<const Redaction>(std::move(redaction));
  return options;
}

ReleaseOptions ReleaseOptionsFrom(const RunConfig& config) {
  auto options = OptionsWith<ReleaseOptions>(config.live);
  options.places = config.engine.versions;
  if (config.live.on) options.behind_max = config.staleness.max_steps;
  return options;
}

SignalOptions SignalOptionsFrom(const RunConfig& config, const std::vector<v1::Task>& tasks,
                                const std::string& run_path) {
  constexpr size_t kGuardsBytesMax = size_t{16} << 20;
  SignalOptions options;
  options.train = true;
  options.window = config.live.window;
  options.others_min = config.live.compare_min;
  if (config.live.siblings > 0) {
    options.siblings = config.live.siblings - 1;
    for (const v1::Task& task : tasks) options.tasks.insert(task.id());
  }
  options.quarantine = {config.live.outlier, config.live.sudden_change};
  const auto text = ReadFileBounded(GuardsFile(run_path), kGuardsBytesMax);
  if (!text.ok()) return options;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_object() && json.contains("quarantine")) {
    options.quarantined = json["quarantine"].dump();
  }
  return options;
}

NextStateOptions NextStateOptionsFrom(const RunConfig& config) {
  NextStateOptions options;
  for (const JudgeConfig& judge : config.reward.judges) {
    if (!judge.live) continue;
    options.judges.push_back(judge.name);
    // A judge that is there answers within its own patience.
    options.patience = std::max<Duration>(options.patience, judge.patience * 3 / 2);
  }
  return options;
}

double TenantShareFrom(const RunConfig& config) {
  if (config.gateway.keys.empty()) return 1;
  const auto keys = ApiKeys::Read(config.gateway.keys);
  if (!keys.ok()) return config.live.tenant_share;  // the gateway says what is wrong
  std::set<std::string> tenants;
  for (const Tenant& tenant : keys->tenants()) {
    if (tenant.consent == Consent::kTrain) tenants.insert(tenant.name);
  }
  const double even = 1.0 / static_cast<double>(std::max<size_t>(1, tenants.size()));
  return std::max(config.live.tenant_share, even);
}

}  // namespace tidemill
