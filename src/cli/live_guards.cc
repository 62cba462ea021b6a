#include "cli/live_guards.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/live_delete.h"
#include "core/files.h"
#include "core/text.h"
#include "run/run_path.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

using GuardsJson = nlohmann::ordered_json;

constexpr size_t kGuardsBytesMax = size_t{16} << 20;
constexpr size_t kSessionsPrinted = 20;

std::string TextOf(const GuardsJson& json, const char* key) {
  return ForTerminal(json.is_object() ? json.value(key, "") : "");
}

void PrintQuarantine(const GuardsJson& quarantine) {
  if (!quarantine.is_object()) return;
  for (const auto& one : quarantine.value("tenants", GuardsJson::array())) {
    fmt::print("quarantine  tenant {}: {}; {} sessions held\n", TextOf(one, "tenant"),
               TextOf(one, "why"), one.value("sessions", uint64_t{0}));
  }
  const GuardsJson sessions = quarantine.value("sessions", GuardsJson::array());
  for (size_t i = 0; i < sessions.size() && i < kSessionsPrinted; ++i) {
    fmt::print("quarantine  session {} of {}: {}\n", sessions[i].value("session", uint64_t{0}),
               TextOf(sessions[i], "tenant"), TextOf(sessions[i], "why"));
  }
  if (sessions.size() > kSessionsPrinted) {
    fmt::print("quarantine  and {} more sessions\n", sessions.size() - kSessionsPrinted);
  }
}

}  // namespace

GuardsJson ReadGuards(const std::string& run_path) {
  const auto text = ReadFileBounded(GuardsFile(run_path), kGuardsBytesMax);
  if (!text.ok()) return nullptr;
  GuardsJson json = GuardsJson::parse(*text, nullptr, false);
  return json.is_object() ? json : GuardsJson(nullptr);
}

void PrintGuards(const GuardsJson& guards) {
  if (!guards.is_object()) return;
  for (const auto& alarm : guards.value("alarms", GuardsJson::array())) {
    fmt::print("alarm       {}: {}\n", TextOf(alarm, "name"), TextOf(alarm, "why"));
  }
  if (guards.contains("quarantine")) PrintQuarantine(guards["quarantine"]);
}

int LiveQuarantine(const LiveQuarantineArguments& arguments) {
  const auto [folder, name] = SplitRunPath(arguments.run, arguments.folder);
  const auto there = RunDirectory::OpenToRead(folder, name);
  if (!there.ok()) return Fail(there.status());
  GuardsJson quarantine = GuardsJson::object();
  if (arguments.admit.empty() && arguments.discard.empty()) {
    const GuardsJson guards = ReadGuards(there->path());
    if (guards.is_object() && guards.contains("quarantine")) quarantine = guards["quarantine"];
  } else {
    const bool train = !arguments.admit.empty();
    const GuardsJson body = {{"tenant", train ? arguments.admit : arguments.discard},
                             {"train", train}};
    const auto told = AskLiveRun(there->path(), "/live/quarantine", body.dump());
    if (!told.ok()) return Fail(told.status());
    quarantine = GuardsJson::parse(*told, nullptr, false);
    if (!quarantine.is_object()) {
      return Fail(Internal("the run's answer is none: " + Beginning(*told, 200)));
    }
  }
  if (arguments.json) {
    PrintJson(quarantine);
    return 0;
  }
  const bool none = quarantine.value("tenants", GuardsJson::array()).empty() &&
                    quarantine.value("sessions", GuardsJson::array()).empty();
  none ? fmt::print("nothing is in quarantine\n") : PrintQuarantine(quarantine);
  return 0;
}

}  // namespace tidemill
