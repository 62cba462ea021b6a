// The roster of a fleet's run, read from its bus.
#include <nlohmann/json.hpp>

#include "cli/fleet_backend.h"
#include "core/files.h"
#include "observe/run_status.h"

namespace tidemill {
namespace {

constexpr size_t kSpecBytes = 16u << 20;
constexpr auto kBusPatience = std::chrono::seconds(2);

}  // namespace

Result<std::string> RosterText(const std::string& url, const std::string& run) {
  TM_ASSIGN_OR_RETURN(RunStatusReader reader, RunStatusReader::Connect(url, kBusPatience));
  TM_ASSIGN_OR_RETURN(const RunStatus status, reader.Read(run));
  return StatusJson(status).dump() + "\n";
}

Result<std::string> RosterIn(const std::string& folder) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(SpecFile(folder), kSpecBytes));
  TM_ASSIGN_OR_RETURN(const KeeperSpec spec, ReadSpec(text));
  return RosterText(spec.bus_url, spec.run);
}

}  // namespace tidemill
