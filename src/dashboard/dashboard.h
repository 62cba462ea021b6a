// The page and its API for the runs of a folder: what `tidemill view` and `tidemill train` start.
//
//   browser -> HttpServer -> PageFiles | RunApi (database, metrics.jsonl) | RunEvents | /metrics
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/counters.h"
#include "core/status.h"
#include "dashboard/run_api.h"
#include "http/http_server.h"

namespace tidemill {

class Metrics;

struct ServeOptions {
  HttpOptions http;
  RunApiOptions api;           // the folder, the run shown first, ..
  std::string page_folder;     // empty: the one that comes with the program
  Metrics* metrics = nullptr;  // for /metrics; must outlive the server
  CounterTable counters = {};  // what a run's figures mean, for /metrics
  // For /readyz: empty or "" when ready, else why not. Called by the server's threads.
  std::function<std::string()> not_ready;
};

// Serves until it is destroyed.
class RunServer {
 public:
  virtual ~RunServer() = default;
  virtual const HttpServer& http() const = 0;
  std::string url() const { return http().url(); }
};

// Failures are HttpServer::Start's. A page that was not built is no failure: the API is there, and
// the page says what is missing.
Result<std::unique_ptr<RunServer>> ServeRuns(const ServeOptions& options);

// One self-contained document about one run: no server, no network.
Result<std::string> ExportRun(const RunApiOptions& api, const std::string& run,
                              const std::string& page_folder);

}  // namespace tidemill
