#include "run/torch/newest_checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "core/log.h"
#include "learner/torch/checkpoint.h"
#include "run/loop_options.h"
#include "store/run_reader.h"

namespace tidemill {
namespace {

// Behind the run's step: where each policy's checkpoint lies that stood there.
std::map<PolicyId, std::string> PathsAt(const RunDirectory& directory,
                                        const std::vector<RunPolicy>& policies,
                                        const CheckpointRecord& record,
                                        const std::vector<OwnedStep>& steps) {
  std::map<PolicyId, std::string> paths;
  for (const RunPolicy& policy : policies) {
    if (!policy.trained) continue;
    uint64_t own = 0;
    for (const OwnedStep& step : steps) {
      if (step.step <= record.step && step.policy == policy.name) own = step.policy_step;
    }
    // What the record says holds for a run's only policy, wherever its folder lies.
    if (policies.size() == 1 && policy.name.empty()) {
      paths[policy.id] = directory.Inside(record.path);
    } else if (own > 0) {
      paths[policy.id] =
          fmt::format("{}/step-{:08}", CheckpointsOf(policy, directory.checkpoints_path()), own);
    }
  }
  return paths;
}

// Not: a folder is gone.
Result<bool> Whole(const std::map<PolicyId, std::string>& paths) {
  std::error_code error;
  for (const auto& [policy, path] : paths) {
    if (std::filesystem::is_directory(path, error)) continue;
    LogWarn("a checkpoint is gone; looking for the one before it", {{"path", path}});
    return false;
  }
  for (const auto& [policy, path] : paths) {
    const Status whole = CheckCheckpoint(path);
    if (whole.ok()) continue;
    return Status(whole.code(),
                  whole.message() + "; delete " + path + " to go on from the checkpoint before it");
  }
  return true;
}

}  // namespace

Result<std::optional<FoundCheckpoint>> NewestCheckpoint(const RunDirectory& directory,
                                                        const std::vector<RunPolicy>& policies) {
  TM_ASSIGN_OR_RETURN(const auto reader, RunReader::Open(directory.db_path()));
  TM_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> records, reader->Checkpoints());
  TM_ASSIGN_OR_RETURN(const std::vector<OwnedStep> steps, reader->OwnedSteps());
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    FoundCheckpoint found{record->step, PathsAt(directory, policies, *record, steps)};
    TM_ASSIGN_OR_RETURN(const bool whole, Whole(found.paths));
    if (whole) return std::optional(std::move(found));
  }
  if (records.empty()) return std::optional<FoundCheckpoint>();
  return NotFound(directory.checkpoints_path() + ": none of the " + std::to_string(records.size()) +
                  " checkpoints on record is there; put one back, or begin a new run");
}

}  // namespace tidemill
