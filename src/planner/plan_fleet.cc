#include "planner/plan_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "scale/launch/fleet_file.h"

namespace tidemill {
namespace {

constexpr uint32_t kCoresAGpu = 8;  // assumed where nothing is said
// What a GPU does at once for engine and trainer, 1 being either alone: 88,264 over 72,782 tokens a
// second (docs/gpu.md, generation and training together).
constexpr double kSharedGpu = 1.21;

Result<PlanFleet> FromFile(const std::string& path, const std::string& gpu) {
  TM_ASSIGN_OR_RETURN(const FleetFile file, ReadFleetFile(path));
  PlanFleet fleet;
  for (const FleetWorkers& workers : file.workers) {
    const uint32_t gpus = workers.count * workers.gpus;
    fleet.gpus += gpus;
    if (workers.role == "rollout") fleet.engines += gpus;
    if (workers.role == "learner" || workers.role == "rank") fleet.ranks += gpus;
    if (workers.role == "tools") fleet.cores += workers.count * workers.cores;
  }
  fleet.hosts = std::max<uint32_t>(1, static_cast<uint32_t>(file.ssh.hosts.size()));
  if (fleet.gpus > 0 && gpu.empty()) {
    return Invalid(path + " does not say which GPUs it has: add --gpu, such as --gpu H100");
  }
  if (fleet.gpus > 0 && (fleet.engines == 0 || fleet.ranks == 0)) {
    return Invalid(path + ": a plan needs GPUs for workers of the roles rollout and learner");
  }
  if (fleet.gpus > 0) fleet.gpu = gpu;
  if (fleet.gpus == 0 && fleet.cores == 0) {
    return Invalid(path + ": a plan needs `gpus` of its workers, or `cores` of those of tools");
  }
  return fleet;
}

}  // namespace

Result<PlanFleet> ReadPlanFleet(const std::string& text, const std::string& gpu) {
  PlanFleet fleet;
  if (text.ends_with(".toml")) {
    TM_ASSIGN_OR_RETURN(fleet, FromFile(text, gpu));
  } else {
    static const std::regex kWords(
        R"((?:(?:(\d{1,5})x)?(\d{1,5})x([A-Za-z][A-Za-z0-9]*))?(?:(?:^|\+)(\d{1,6})cpu)?)");
    std::smatch match;
    if (text.empty() || !std::regex_match(text, match, kWords)) {
      return Invalid("--fleet " + text +
                     ": write 8xH100, 2x8xH200+64cpu, 64cpu or the path of a fleet file (.toml)");
    }
    const auto number = [&](size_t group, uint32_t otherwise) {
      return match[group].matched ? static_cast<uint32_t>(std::stoul(match[group])) : otherwise;
    };
    fleet.gpu = match[3];
    fleet.hosts = number(1, 1);
    fleet.gpus = fleet.hosts * number(2, 0);
    fleet.cores = number(4, 0);
    if (fleet.gpus == 0 && fleet.cores == 0) {
      return Invalid("--fleet " + text + ": it has neither a GPU nor a core");
    }
  }
  if (fleet.cores == 0) {
    fleet.cores = kCoresAGpu * fleet.gpus;
    fleet.cores_assumed = true;
  }
  return fleet;
}

PlanLayout LayoutOn(const PlanFleet& fleet, const RunConfig& config, uint32_t ranks) {
  PlanLayout layout;
  layout.cores = fleet.cores;
  layout.tool_slots = layout.grade_slots =
      config.tools.slots > 0 ? config.tools.slots : fleet.cores;
  if (fleet.gpus == 0) {
    layout.one_machine = true;
  } else if (fleet.gpus == 1) {
    layout.shared_gpu = kSharedGpu;
  } else {
    layout.ranks = std::clamp<uint32_t>(ranks, 1, fleet.gpus - 1);
    layout.engines = fleet.gpus - layout.ranks;
  }
  return layout;
}

std::string FleetText(const PlanFleet& fleet) {
  const std::string cores =
      fmt::format("{} cores for tools{}", fleet.cores, fleet.cores_assumed ? " (assumed)" : "");
  if (fleet.gpus == 0) return fmt::format("{} cores", fleet.cores);
  return fmt::format("{} {} on {} host{}, {}", fleet.gpus, fleet.gpu, fleet.hosts,
                     fleet.hosts == 1 ? "" : "s", cores);
}

}  // namespace tidemill
