#include "scale/launch/fleet_health.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tidemill {

Result<std::vector<WorkerHealth>> ReadHealth(const std::string& status_json) try {
  const auto json = nlohmann::json::parse(status_json);
  std::vector<WorkerHealth> workers;
  for (const auto& one : json.at("workers")) {
    WorkerHealth worker;
    one.at("worker").get_to(worker.worker);
    one.at("role").get_to(worker.role);
    one.at("host").get_to(worker.host);
    one.at("state").get_to(worker.state);
    one.at("doing").get_to(worker.doing);
    one.at("busy").get_to(worker.busy);
    one.at("rate_of").get_to(worker.rate_of);
    if (!one.at("rate").is_null()) one.at("rate").get_to(worker.rate);
    one.at("beat_age_s").get_to(worker.beat_age_s);
    workers.push_back(std::move(worker));
  }
  return workers;
} catch (const nlohmann::json::exception& error) {
  return Corrupt(std::string("the fleet's roster: ") + error.what());
}

std::vector<RoleHealth> RolesOf(const FleetFile& fleet, const std::vector<WorkerHealth>& workers) {
  std::vector<RoleHealth> roles;
  for (const char* role : {"learner", "rollout", "tools", "reward"}) {
    RoleHealth health;
    health.role = role;
    for (const FleetWorkers& wanted : fleet.workers) {
      if (wanted.role == role) health.wanted += wanted.count;
    }
    for (const WorkerHealth& worker : workers) {
      if (worker.role != role) continue;
      health.here += worker.here() ? 1 : 0;
      health.lost += worker.lost() ? 1 : 0;
      if (worker.here()) health.busy += worker.busy;
    }
    if (health.here > 0) health.busy /= health.here;
    roles.push_back(std::move(health));
  }
  return roles;
}

bool IsThere(const std::vector<RoleHealth>& roles) {
  return std::all_of(roles.begin(), roles.end(),
                     [](const RoleHealth& role) { return role.here >= role.wanted; });
}

std::string RoleWords(const RoleHealth& role) {
  std::string words = std::to_string(role.here) + " of " + std::to_string(role.wanted) + " here";
  if (role.lost > 0) words += ", " + std::to_string(role.lost) + " lost";
  return words;
}

}  // namespace tidemill
