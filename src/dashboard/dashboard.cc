#include "dashboard/dashboard.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/log.h"
#include "core/metrics.h"
#include "core/shipped_files.h"
#include "dashboard/page_files.h"
#include "dashboard/run_events.h"
#include "observe/run_gauges.h"

namespace tidemill {
namespace {

constexpr int64_t kExportWindowMs = 60'000;

PageFiles ReadPage(const std::string& folder) {
  Result<PageFiles> page = PageFiles::Read(folder.empty() ? ShippedFolder("web") : folder);
  if (page.ok()) return std::move(*page);
  LogWarn("the dashboard's page was not built; serving only the API",
          {{"why", page.status().message()}});
  return PageFiles::Missing();
}

class Server final : public RunServer {
 public:
  explicit Server(const ServeOptions& options)
      : options_(options),
        page_(ReadPage(options.page_folder)),
        api_(options.api),
        events_({.folder = options.api.folder}) {}

  Status Start() {
    HttpHandlers handlers;
    handlers.answer = [this](const HttpRequest& request) { return Answer(request); };
    handlers.open_stream = [this](const HttpRequest& request, std::shared_ptr<EventStream> stream) {
      return events_.Open(request, std::move(stream));
    };
    TM_ASSIGN_OR_RETURN(http_, HttpServer::Start(options_.http, std::move(handlers)));
    return Ok();
  }

  const HttpServer& http() const override { return *http_; }

 private:
  HttpResponse Answer(const HttpRequest& request) {
    if (request.path == "/healthz") return TextResponse(200, "ok\n");
    if (request.path == "/readyz") {
      const std::string why = options_.not_ready ? options_.not_ready() : "";
      return why.empty() ? TextResponse(200, "ready\n") : TextResponse(503, why + "\n");
    }
    if (request.path == "/metrics") return MetricsText();
    if (NeedsToken(request.path)) return api_.Answer(request);
    return page_.Answer(request);
  }

  HttpResponse MetricsText() {
    std::ostringstream out;
    if (options_.metrics != nullptr) out << options_.metrics->Text();
    const HttpServer::Stats stats = http_ ? http_->stats() : HttpServer::Stats();
    out << "# HELP tidemill_http_requests_total Requests answered by this server\n"
           "# TYPE tidemill_http_requests_total counter\n"
        << "tidemill_http_requests_total " << stats.requests << "\n"
        << "# HELP tidemill_http_streams Open event streams\n# TYPE tidemill_http_streams gauge\n"
        << "tidemill_http_streams " << stats.streams << "\n";
    if (const auto run = api_.views().Get(options_.api.default_run); run.ok()) {
      const Status status = (*run)->WithMetrics([&](const MetricsFile& metrics) {
        out << RunGauges(options_.api.default_run, metrics, options_.counters);
      });
      if (!status.ok())
        LogEvery(std::chrono::seconds(60), "run-gauges", LogLevel::kWarn, status.message());
    }
    return MetricsResponse(out.str());
  }

  const ServeOptions options_;
  const PageFiles page_;
  RunApi api_;
  RunEvents events_;
  std::unique_ptr<HttpServer> http_;  // goes first: it calls the others
};

// Every answer the exported page will ask for.
std::vector<std::string> ExportTargets(const std::string& run) {
  const std::string base = "/api/runs/" + run;
  return {"/api/about",
          base,
          base + "/series",
          base + "/pass_rate",
          base + "/pass_rate?purpose=eval",
          base + "/tasks?limit=200",
          base + "/tools",
          base + "/faults",
          base + "/config",
          base + "/episodes?limit=100",
          base + "/episodes?sort=worst&limit=50",
          base + "/episodes?sort=best&limit=50"};
}

}  // namespace

Result<std::unique_ptr<RunServer>> ServeRuns(const ServeOptions& options) {
  auto server = std::make_unique<Server>(options);
  TM_RETURN_IF_ERROR(server->Start());
  return std::unique_ptr<RunServer>(std::move(server));
}

Result<std::string> ExportRun(const RunApiOptions& options, const std::string& run,
                              const std::string& page_folder) {
  TM_ASSIGN_OR_RETURN(const PageFiles page,
                      PageFiles::Read(page_folder.empty() ? ShippedFolder("web") : page_folder));
  RunApiOptions only = options;
  only.default_run = run;
  only.finish = nullptr;
  RunApi api(std::move(only));
  std::map<std::string, std::string> answers;
  const auto add = [&](const std::string& target) -> Status {
    if (answers.contains(target)) return Ok();
    HttpResponse response = api.Get(target);
    if (response.status != 200) return Internal(target + ": " + response.body);
    answers[target] = std::move(response.body);
    return Ok();
  };
  // Tool calls are summed up a little at a time.
  const std::string tools = "/api/runs/" + run + "/tools";
  for (int i = 0; i < 10'000; ++i) {
    const auto json = nlohmann::json::parse(api.Get(tools).body, nullptr, false);
    if (!json.is_object() || json.value("complete", true)) break;
  }
  for (const std::string& target : ExportTargets(run)) TM_RETURN_IF_ERROR(add(target));
  // The minute before the last step: where the run trained, and not only evaluated.
  const std::string timeline = "/api/runs/" + run + "/timeline";
  const auto extent = nlohmann::json::parse(api.Get(timeline + "?limit=1").body, nullptr, false);
  const int64_t end = extent.is_object() ? extent.value("last_step_ms", int64_t{0}) : 0;
  TM_RETURN_IF_ERROR(add(timeline + "?limit=1000" +
                         (end > kExportWindowMs ? "&from=" + std::to_string(end - kExportWindowMs) +
                                                      "&to=" + std::to_string(end)
                                                : "")));
  for (const char* order : {"?limit=100", "?sort=worst&limit=50", "?sort=best&limit=50"}) {
    const auto page_of = nlohmann::json::parse(answers["/api/runs/" + run + "/episodes" + order]);
    for (const auto& row : page_of["episodes"]) {
      const std::string group = std::to_string(row["group"].get<uint64_t>());
      const std::string member = std::to_string(row["member"].get<uint64_t>());
      TM_RETURN_IF_ERROR(add("/api/runs/" + run + "/episodes/" + group + "/" + member));
      TM_RETURN_IF_ERROR(add("/api/runs/" + run + "/groups/" + group));
    }
  }
  std::string json = "{";
  for (const auto& [target, body] : answers) {
    json += (json.size() > 1 ? "," : "") + nlohmann::json(target).dump() + ":" + body;
  }
  return page.ExportDocument(json + "}");
}

}  // namespace tidemill
