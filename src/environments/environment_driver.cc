#include "environments/environment_driver.h"

namespace tidemill {
namespace {

constexpr StandardRow kStandards[] = {
    {"openenv", "OpenEnv: a WebSocket, reset and step", "", NewOpenEnvDriver},
    {"nemo-gym", "NeMo-Gym: a resources server over HTTP", "resources, gymnasium",
     NewNemoGymDriver},
};

}  // namespace

std::span<const StandardRow> Standards() {
  return kStandards;
}

const StandardRow* StandardNamed(std::string_view name) {
  for (const StandardRow& row : kStandards) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace tidemill
