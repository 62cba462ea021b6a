// tidemill doctor [--json]: what this machine can do, with the fix for what is missing.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/machine.h"
#include "core/version.h"

namespace tidemill {
namespace {

void PrintChecks(const std::vector<MachineCheck>& checks, bool ready) {
  nlohmann::ordered_json report;
  report["version"] = FullVersion();
  report["libtorch"] = TorchVersion();
  report["ready"] = ready;
  for (const MachineCheck& check : checks) {
    nlohmann::ordered_json& entry = report["checks"][check.name];
    entry["finding"] = FindingName(check.finding);
    entry["detail"] = check.detail;
    if (!check.fix.empty()) entry["fix"] = check.fix;
  }
  PrintJson(report);
}

void PrintText(const std::vector<MachineCheck>& checks, bool ready) {
  const bool colour = isatty(STDOUT_FILENO) == 1;
  auto code = [](Finding finding) {
    return finding == Finding::kGood      ? "32"
           : finding == Finding::kInfo    ? "36"
           : finding == Finding::kWarning ? "33"
                                          : "31";
  };
  for (const MachineCheck& check : checks) {
    const std::string name(FindingName(check.finding));
    const std::string shown =
        colour ? std::string("\x1b[") + code(check.finding) + "m" + name + "\x1b[0m" : name;
    const int padding = static_cast<int>(8 - name.size());
    std::printf("%-16s %s%*s %s\n", check.name.c_str(), shown.c_str(), padding, "",
                check.detail.c_str());
    if (!check.fix.empty()) std::printf("%-16s %-8s fix: %s\n", "", "", check.fix.c_str());
  }
  std::printf("%s\n", ready ? "ready" : "not ready: see the failed checks above");
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Check what this machine can do, and how to fix what is missing");
  // Shared: the options write to it, the callback reads it, and both outlive this function.
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object on standard output");
  command->callback([json, &exit] {
    const std::vector<MachineCheck> checks = CheckMachine();
    bool ready = true;
    for (const MachineCheck& check : checks) ready = ready && check.finding != Finding::kMissing;
    *json ? PrintChecks(checks, ready) : PrintText(checks, ready);
    exit.code = ready ? 0 : 1;
  });
}

}  // namespace tidemill
