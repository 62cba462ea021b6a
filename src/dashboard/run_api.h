// The JSON API over a folder of runs, running or finished, from their directories alone; the fleet
// of one that runs on many machines comes from its bus.
// docs/api.md describes every path.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dashboard/fleet_view.h"
#include "dashboard/run_view.h"
#include "http/http_message.h"

namespace tidemill {

struct RunApiOptions {
  std::string folder = "runs";
  std::string default_run = {};          // what the page opens first; may be empty
  std::string default_config_toml = {};  // every key with its default, to show what a run changed
  // POST /api/admin/finish: ends the run this process trains. Empty: there is none.
  std::function<void()> finish = {};
  // GET /api/gateway: the figures of the gateway in this process, as JSON. Empty: there is none.
  std::function<std::string()> gateway = {};
  std::string bus_url = {};  // redis://..: where the fleets of the runs are; empty: nowhere
};

// Thread-safe.
class RunApi {
 public:
  explicit RunApi(RunApiOptions options);

  // For every path under /api but the stream of events. The server has decided who may ask.
  HttpResponse Answer(const HttpRequest& request);
  // The same for a GET from inside the program: "/api/runs/x?points=10".
  HttpResponse Get(const std::string& target);

  RunViews& views() { return views_; }

 private:
  using Method = Result<HttpResponse> (RunApi::*)(const HttpRequest&, RunView&);

  Result<HttpResponse> Route(const HttpRequest& request);
  Result<HttpResponse> RouteRun(const HttpRequest& request, const std::vector<std::string>& parts);
  HttpResponse Admin(const HttpRequest& request);
  HttpResponse About();
  Result<HttpResponse> Runs();

  // run_api.cc: the run as a whole.
  Result<HttpResponse> Run(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Series(const HttpRequest& request, RunView& run);
  Result<HttpResponse> PassRate(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Config(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Notes(const HttpRequest& request, RunView& run);
  // run_search.cc: text search over transcripts.
  Result<HttpResponse> Search(const HttpRequest& request, RunView& run);
  // run_api_parts.cc: what is in it.
  Result<HttpResponse> Episodes(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Episode(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Group(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Tasks(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Tools(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Faults(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Release(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Guards(const HttpRequest& request, RunView& run);
  Result<HttpResponse> TimelineOf(const HttpRequest& request, RunView& run);
  Result<HttpResponse> Fleet(const HttpRequest& request, RunView& run);
  // run_sessions.cc: the gateway's sessions.
  Result<HttpResponse> Sessions(const HttpRequest& request, RunView& run);
  Result<HttpResponse> SessionDetail(const HttpRequest& request, RunView& run);
  // run_memory.cc: the cases.
  Result<HttpResponse> Memory(const HttpRequest& request, RunView& run);
  Result<HttpResponse> MemoryCase(const HttpRequest& request, RunView& run);

  const RunApiOptions options_;
  RunViews views_;
  FleetView fleets_;
};

// "running", "done", "failed", "interrupted" or "unfinished" (no process writes it, no summary).
std::string RunState(const RunInfo& info, const RunDirectory& directory);

// The parts of "/api/runs/x/tasks" below "/api".
std::vector<std::string> PathParts(const std::string& path);
// "train", "eval" or "" for both; kInvalid else.
Result<v1::Purpose> PurposeParameter(const HttpRequest& request);
// Which episodes are asked for.
Result<EpisodeFilter> FilterParameters(const HttpRequest& request);

}  // namespace tidemill
