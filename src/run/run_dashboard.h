// The dashboard beside a run that trains in this process, as [dashboard] of its config says.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dashboard/dashboard.h"
#include "run/run_config.h"
#include "store/run_directory.h"

namespace tidemill {

// [dashboard] as options of the server, checked as far as it goes without listening. kInvalid: the
// config, or the file of tokens, is wrong.
Result<HttpOptions> DashboardOptions(const RunConfig& config);

// Every key with its default, to show what a run changed.
std::string DefaultConfigToml();

struct DashboardRun {
  std::string folder;  // of runs
  std::string name;
  std::function<void()> finish;               // ends the run; called by the server's threads
  Metrics* metrics = nullptr;                 // for /metrics; must outlive the server
  std::string bus_url = {};                   // of its fleet; empty: it is one process
  std::function<std::string()> gateway = {};  // RunApiOptions::gateway
};

// Training comes first: where the port is taken (or nothing can be served at all) it says so and
// goes on with a free port, or without a dashboard (nullptr), as dashboard.if_taken says.
std::unique_ptr<RunServer> StartDashboard(const HttpOptions& http, const std::string& if_taken,
                                          const DashboardRun& run);

}  // namespace tidemill
