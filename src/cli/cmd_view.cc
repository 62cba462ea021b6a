// tidemill view: the dashboard over a folder of runs, or one run as a file.
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bus/broker.h"
#include "cli/commands.h"
#include "cli/wait_signal.h"
#include "dashboard/dashboard.h"
#include "http/access.h"
#include "run/run_counters.h"
#include "run/run_dashboard.h"
#include "run/run_path.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

struct ViewArguments {
  std::string run;
  std::string folder = "runs";
  std::string host = "127.0.0.1";
  uint16_t port = 8321;
  std::string token_file;
  std::string export_path;
  std::string bus_url;
};

int Export(const ViewArguments& arguments, const RunApiOptions& api) {
  const Result<std::string> html = ExportRun(api, arguments.run, "");
  if (!html.ok()) return Fail(html.status());
  std::ofstream file(arguments.export_path, std::ios::binary | std::ios::trunc);
  file << *html;
  file.close();
  if (!file.good()) return Fail(Unavailable(arguments.export_path + ": cannot write it"));
  std::printf("%s (%.1f MB)\n", arguments.export_path.c_str(),
              static_cast<double>(html->size()) / 1e6);
  return 0;
}

int View(const ViewArguments& arguments) {
  RunApiOptions api;
  api.folder = arguments.folder;
  api.default_run = arguments.run;
  api.default_config_toml = DefaultConfigToml();
  api.bus_url = arguments.bus_url;
  if (!api.bus_url.empty()) {
    if (const Status url = CheckBusUrl(api.bus_url); !url.ok()) return Fail(url);
  }
  if (!arguments.run.empty()) {
    const Result<RunDirectory> directory =
        RunDirectory::OpenToRead(arguments.folder, arguments.run);
    if (!directory.ok()) return Fail(directory.status());
  }
  if (!arguments.export_path.empty()) {
    if (arguments.run.empty()) return Fail(Invalid("--export needs the name of a run"));
    return Export(arguments, api);
  }
  BlockSignals();
  ServeOptions options;
  options.api = std::move(api);
  options.counters = RunCounters();
  options.http.address = arguments.host;
  options.http.port = arguments.port;
  if (!arguments.token_file.empty()) {
    Result<std::vector<std::string>> tokens = ReadTokenFile(arguments.token_file);
    if (!tokens.ok()) return Fail(tokens.status());
    options.http.tokens = std::move(*tokens);
  }
  const auto server = ServeRuns(options);
  if (!server.ok()) return Fail(server.status());
  std::printf("%s\n", (*server)->url().c_str());
  std::fflush(stdout);
  WaitForSignal();
  return 0;
}

}  // namespace

void AddViewCommand(CLI::App& app, Exit& exit) {
  CLI::App* view = app.add_subcommand("view", "Open the dashboard on a running or finished run");
  auto arguments = std::make_shared<ViewArguments>();
  view->add_option("run", arguments->run, "Run to open first, name or folder; default: the newest");
  view->add_option("--folder", arguments->folder, "Folder that holds the runs")
      ->capture_default_str();
  view->add_option("--host", arguments->host, "Listen address")->capture_default_str();
  view->add_option("--port", arguments->port, "Port; 0: any free port")->capture_default_str();
  view->add_option("--token-file", arguments->token_file,
                   "File with bearer tokens, one per line; required outside loopback");
  view->add_option("--bus", arguments->bus_url,
                   "To show the workers of runs on many machines: " + std::string(kBusUrlForm))
      ->envname(kBusVariable);
  view->add_option("--export", arguments->export_path,
                   "Write the run as one HTML file that needs no server, and exit");
  view->callback([arguments, &exit] {
    if (!arguments->run.empty()) {
      std::tie(arguments->folder, arguments->run) = SplitRunPath(arguments->run, arguments->folder);
    }
    exit.code = View(*arguments);
  });
}

}  // namespace tidemill
