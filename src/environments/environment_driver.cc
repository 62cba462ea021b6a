#include "environments/environment_driver.h"

namespace tidemill {
namespace {

const StandardRow kStandards[] = {
    {"openenv", {}, NewOpenEnvDriver},
    {"nemo-gym", {"resources", "gymnasium"}, NewNemoGymDriver},
};

}  // namespace

Status CheckMode(const StandardRow& standard, std::string_view mode) {
  if (mode.empty()) return Ok();
  std::string modes;
  for (const std::string_view one : standard.modes) {
    if (one == mode) return Ok();
    modes += (modes.empty() ? "" : ", ") + std::string(one);
  }
  return Invalid("mode \"" + std::string(mode) + "\": " + std::string(standard.name) +
                 (modes.empty() ? " has no modes" : " has " + modes));
}

const StandardRow* StandardNamed(std::string_view name) {
  for (const StandardRow& row : kStandards) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace tidemill
