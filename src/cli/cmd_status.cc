// tidemill status: who works on a run, how deep its queues are and what died.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "bus/broker.h"
#include "cli/commands.h"
#include "core/text.h"
#include "observe/run_status.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

struct StatusArguments {
  std::string url, run;
  double wait_s = 0;
  bool json = false;
};

int ShowRun(RunStatusReader& reader, const std::string& run, bool json) {
  const Result<RunStatus> status = reader.Read(run);
  if (!status.ok()) return Fail(status.status());
  if (json) {
    PrintJson(StatusJson(*status));
  } else {
    std::printf("%s", ForTerminal(StatusText(*status, RealClock().WallMs())).c_str());
  }
  return 0;
}

// One line each.
int ShowRuns(RunStatusReader& reader, const std::vector<std::string>& runs, bool json) {
  Json list = Json::array();
  if (!json)
    std::printf("%-32s %8s %8s %8s %14s\n", "RUN", "WORKERS", "LOST", "VERSION", "DEAD LETTERS");
  for (const std::string& run : runs) {
    const Result<RunStatus> status = reader.Read(run);
    if (status.status().code() == Code::kNotFound) continue;  // removed meanwhile
    if (!status.ok()) return Fail(status.status());
    if (json) {
      list.push_back(StatusJson(*status));
    } else {
      std::printf("%s\n",
                  fmt::format("{:<32} {:>8} {:>8} {:>8} {:>14}", run, status->workers.size(),
                              status->lost(), status->policy_version, status->dead_letters)
                      .c_str());
    }
  }
  if (json) PrintJson({{"runs", list}});
  return 0;
}

int RunStatusCommand(const StatusArguments& arguments) {
  Result<RunStatusReader> reader = RunStatusReader::Connect(arguments.url);
  if (!reader.ok()) return Fail(reader.status());
  if (!arguments.run.empty() && arguments.wait_s > 0) {
    const RealClock clock;
    const Time until = clock.Now() + std::chrono::duration_cast<Duration>(
                                         std::chrono::duration<double>(arguments.wait_s));
    while (clock.Now() < until && reader->Read(arguments.run).status().code() == Code::kNotFound)
      std::this_thread::sleep_for(milliseconds(200));
  }
  if (!arguments.run.empty()) return ShowRun(*reader, arguments.run, arguments.json);
  const Result<std::vector<std::string>> runs = reader->Runs();
  if (!runs.ok()) return Fail(runs.status());
  if (runs->size() == 1 && !arguments.json) return ShowRun(*reader, runs->front(), false);
  if (runs->empty() && !arguments.json) {
    std::printf("no runs on this server\n");
    return 0;
  }
  return ShowRuns(*reader, *runs, arguments.json);
}

}  // namespace

void AddStatusCommand(CLI::App& app, Exit& exit) {
  CLI::App* status =
      app.add_subcommand("status", "Show the workers and queues of a run on a broker");
  auto arguments = std::make_shared<StatusArguments>();
  status->add_option("--bus", arguments->url, kBusUrlForm)->envname(kBusVariable)->required();
  status
      ->add_option("--run", arguments->run,
                   "Name of the run; default: TIDEMILL_RUN, or list all runs")
      ->envname(kRunVariable);
  status->add_option("--wait", arguments->wait_s, "Seconds to wait for the run to appear")
      ->check(CLI::Range(0.0, 86400.0));
  status->add_flag("--json", arguments->json, "Print one JSON object on standard output");
  status->callback([arguments, &exit] { exit.code = RunStatusCommand(*arguments); });
}

}  // namespace tidemill
