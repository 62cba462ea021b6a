#include "run/run_dashboard.h"

#include "core/log.h"
#include "http/access.h"
#include "run/run_counters.h"

namespace tidemill {

Result<HttpOptions> DashboardOptions(const RunConfig& config) {
  HttpOptions http;
  http.address = config.dashboard.host;
  http.port = static_cast<uint16_t>(config.dashboard.port);
  if (!config.dashboard.token_file.empty()) {
    TM_ASSIGN_OR_RETURN(http.tokens, ReadTokenFile(config.dashboard.token_file));
  }
  if (!IsLoopback(http.address) && http.tokens.empty()) {
    return Invalid("dashboard.host is \"" + http.address +
                   "\", which other machines can reach: set dashboard.token_file, use 127.0.0.1, "
                   "or turn the dashboard off (--no-web)");
  }
  return http;
}

std::string DefaultConfigToml() {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  return binder.ToToml("");
}

std::unique_ptr<RunServer> StartDashboard(const HttpOptions& http, const std::string& if_taken,
                                          const DashboardRun& run) {
  ServeOptions options;
  options.http = http;
  options.api.folder = run.folder;
  options.api.default_run = run.name;
  options.api.default_config_toml = DefaultConfigToml();
  options.api.finish = run.finish;
  options.api.bus_url = run.bus_url;
  options.api.gateway = run.gateway;
  options.metrics = run.metrics;
  options.counters = RunCounters();
  Result<std::unique_ptr<RunServer>> server = ServeRuns(options);
  if (!server.ok() && server.status().code() == Code::kUnavailable && if_taken == "free" &&
      http.port != 0) {
    LogWarn("the dashboard's port is taken; using a free one",
            {{"why", server.status().message()}});
    options.http.port = 0;
    server = ServeRuns(options);
  }
  if (server.ok()) return std::move(*server);
  LogWarn("training continues without the dashboard", {{"why", server.status().message()}});
  return nullptr;
}

}  // namespace tidemill
