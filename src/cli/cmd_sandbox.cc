// tidemill sandbox run [limits] [--file NAME=PATH].. [--json] -- COMMAND: one command in the tool
// sandbox.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "core/enum_name.h"
#include "core/files.h"
#include "tools/box/box_host.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

// Most bytes of each output that are shown; what is printed beyond is cut in the middle.
constexpr size_t kShownMax = 8 << 20;

constexpr size_t kFileBytesMax = size_t{64} << 20;

struct SandboxRun {
  v1::Limits limits;
  std::vector<std::string> files;  // NAME=PATH
  std::vector<std::string> command;
  bool own_user = false;
  bool json = false;
};

Status PutFiles(const std::vector<std::string>& files, Box& box) {
  for (const std::string& pair : files) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return Invalid("--file must be NAME=PATH, got \"" + pair + "\"");
    }
    const std::string name = pair.substr(0, equals), path = pair.substr(equals + 1);
    TM_ASSIGN_OR_RETURN(const std::string content, ReadFileBounded(path, kFileBytesMax));
    TM_RETURN_IF_ERROR(box.Put(name, content, access(path.c_str(), X_OK) == 0));
  }
  return Ok();
}

void Show(const RunReport& report, bool json) {
  if (json) {
    const Json object = {{"outcome", EnumName(report.outcome)},
                         {"exit_code", report.exit_code},
                         {"stdout", report.out},
                         {"stderr", report.err},
                         {"truncated", report.truncated},
                         {"wall_ms", report.wall_ms},
                         {"cpu_ms", report.cpu_ms},
                         {"peak_memory_kb", report.peak_memory_kb},
                         {"degraded", report.degraded},
                         {"cause", report.cause}};
    PrintJson(object);
    return;
  }
  const std::string out = Shown(report.out), err = Shown(report.err, stderr);
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
  std::fwrite(err.data(), 1, err.size(), stderr);
  std::fprintf(stderr, "%s, exit code %d, %.1f ms, %.1f ms of CPU, %.1f MiB%s%s%s\n",
               EnumName(report.outcome).c_str(), report.exit_code, report.wall_ms, report.cpu_ms,
               static_cast<double>(report.peak_memory_kb) / 1024,
               report.degraded ? ", without cgroups" : "", report.cause.empty() ? "" : ": ",
               report.cause.c_str());
}

int RunInSandbox(const SandboxRun& run) {
  const BoxLimits limits = LimitsFrom(run.limits, BoxLimits());
  const Status checked = CheckLimits(limits);
  if (!checked.ok()) return Fail(checked);
  auto host = BoxHost::Create({.own_user = run.own_user});
  if (!host.ok()) {
    RunReport report;
    report.outcome = v1::OUTCOME_UNAVAILABLE;
    report.cause = host.status().message();
    Show(report, run.json);
    return 1;
  }
  auto box = (*host)->Open();
  Status status = box.status();
  if (status.ok()) status = (*box)->Configure(limits);
  if (status.ok()) status = PutFiles(run.files, **box);
  if (!status.ok()) return Fail(status);
  RunSpec spec;
  spec.command = run.command;
  spec.limits = limits;
  spec.keep_bytes = std::min<size_t>(limits.output_bytes, kShownMax);
  const RunReport report = (*box)->Run(spec);
  Show(report, run.json);
  return report.outcome == v1::OUTCOME_UNAVAILABLE ? 1 : 0;
}

}  // namespace

void AddSandboxCommand(CLI::App& app, Exit& exit) {
  CLI::App* sandbox = app.add_subcommand("sandbox", "Use the tool sandbox");
  sandbox->require_subcommand(1);
  CLI::App* run = sandbox->add_subcommand("run", "Run one command in a fresh box");
  auto options = std::make_shared<SandboxRun>();  // shared: the callbacks outlive this call
  const auto limit = [&](const std::string& name, const std::string& help, auto set) {
    run->add_option_function<uint32_t>(
           name, [options, set](const uint32_t& value) { set(options->limits, value); }, help)
        ->check(CLI::Range(uint32_t{1}, UINT32_MAX));
  };
  limit("--wall-ms", "Wall-clock limit; default: 10000",
        [](v1::Limits& limits, uint32_t value) { limits.set_wall_ms(value); });
  limit("--cpu-ms", "Total CPU time limit; default: 10000",
        [](v1::Limits& limits, uint32_t value) { limits.set_cpu_ms(value); });
  limit("--memory-mb", "Total memory limit, including files; default: 512",
        [](v1::Limits& limits, uint32_t value) { limits.set_memory_mb(value); });
  limit("--processes", "Maximum number of processes and threads; default: 64",
        [](v1::Limits& limits, uint32_t value) { limits.set_processes(value); });
  limit("--output-kb", "Limit of standard output and error together; default: 1024",
        [](v1::Limits& limits, uint32_t value) { limits.set_output_kb(value); });
  limit("--disk-mb", "Disk limit; default: 64",
        [](v1::Limits& limits, uint32_t value) { limits.set_disk_mb(value); });
  run->add_flag("--own-user", options->own_user, "As tools.own_user");
  run->add_option("--file", options->files, "Workspace file, NAME=PATH; may be repeated")
      ->allow_extra_args(false);
  run->add_flag("--json", options->json, "Print one JSON object on standard output");
  run->add_option("command", options->command, "Command to run, after --")->required();
  run->callback([options, &exit] { exit.code = RunInSandbox(*options); });
}

}  // namespace tidemill
