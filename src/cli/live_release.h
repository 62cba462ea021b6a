// tidemill live rollback, and the release of a run for tidemill live status.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace tidemill {

struct LiveRollbackArguments {
  std::string folder, run;
  std::optional<uint64_t> to{};
  bool json = false;
};

int LiveRollback(const LiveRollbackArguments& arguments);

// The release state of a run; null: the run does not release.
nlohmann::ordered_json ReadRelease(const std::string& run_path);
// For a person: what is released and why, what is being tried, alarms.
void PrintRelease(const nlohmann::ordered_json& release);

}  // namespace tidemill
