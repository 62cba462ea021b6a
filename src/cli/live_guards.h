// Alarms and quarantine of a run, for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tidemill {

// As GuardDesk::Json; null: the run has none.
nlohmann::ordered_json ReadGuards(const std::string& run_path);
void PrintGuards(const nlohmann::ordered_json& guards);

struct LiveQuarantineArguments {
  std::string run{};
  std::string folder{};
  std::string admit{};    // a tenant
  std::string discard{};  // a tenant
  bool json = false;
};
// The exit status.
int LiveQuarantine(const LiveQuarantineArguments& arguments);

}  // namespace tidemill
