#include "cli/live_release.h"

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

using RollbackJson = nlohmann::ordered_json;

constexpr size_t kReleaseBytesMax = size_t{4} << 20;

std::string WhyReleased(const RollbackJson& release) {
  std::string why;
  for (const auto& event : release.value("events", RollbackJson::array())) {
    if (event.value("what", "") == "released" &&
        event.value("version", uint64_t{0}) == release["released"].value("version", uint64_t{0})) {
      why = event.value("why", "");
    }
  }
  return why;
}

}  // namespace

RollbackJson ReadRelease(const std::string& run_path) {
  const auto text = ReadFileBounded(ReleaseFile(run_path), kReleaseBytesMax);
  if (!text.ok()) return nullptr;
  RollbackJson json = RollbackJson::parse(*text, nullptr, false);
  return json.is_object() && json.contains("released") ? json : RollbackJson(nullptr);
}

void PrintRelease(const RollbackJson& release) {
  fmt::print("released    version {} ({})\n", release["released"].value("version", uint64_t{0}),
             ForTerminal(WhyReleased(release)));
  if (const RollbackJson& candidate = release["candidate"]; candidate.is_object()) {
    fmt::print("candidate   version {}, in the {}\n", candidate.value("version", uint64_t{0}),
               ForTerminal(candidate.value("stage", "")));
  }
  const RollbackJson events = release.value("events", RollbackJson::array());
  if (events.empty()) return;
  const RollbackJson& last = events.back();
  fmt::print("last        {}: version {}, {}\n", ForTerminal(last.value("what", "")),
             last.value("version", uint64_t{0}), ForTerminal(last.value("why", "")));
}

int LiveRollback(const LiveRollbackArguments& arguments) {
  const auto [folder, name] = SplitRunPath(arguments.run, arguments.folder);
  const auto there = RunDirectory::OpenToRead(folder, name);
  if (!there.ok()) return Fail(there.status());
  RollbackJson body = RollbackJson::object();
  if (arguments.to) body["to"] = *arguments.to;
  const auto told = AskLiveRun(there->path(), "/live/rollback", body.dump());
  if (!told.ok()) return Fail(told.status());
  const RollbackJson release = RollbackJson::parse(*told, nullptr, false);
  if (!release.is_object() || !release.contains("released")) {
    return Fail(Internal("the run's answer is none: " + Beginning(*told, 200)));
  }
  arguments.json ? PrintJson(release) : PrintRelease(release);
  return 0;
}

}  // namespace tidemill
