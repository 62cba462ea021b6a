#include "run/torch/newest_checkpoint.h"

#include <filesystem>
#include <vector>

#include "core/log.h"
#include "learner/torch/checkpoint.h"
#include "store/run_reader.h"

namespace tidemill {

Result<std::optional<FoundCheckpoint>> NewestCheckpoint(const RunDirectory& directory) {
  TM_ASSIGN_OR_RETURN(const auto reader, RunReader::Open(directory.db_path()));
  TM_ASSIGN_OR_RETURN(const std::vector<CheckpointRecord> records, reader->Checkpoints());
  std::error_code error;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    const std::string path = directory.Inside(record->path);
    if (!std::filesystem::is_directory(path, error)) {
      LogWarn("a checkpoint is gone; looking for the one before it", {{"path", path}});
      continue;
    }
    const Status whole = CheckCheckpoint(path);
    if (whole.ok()) return std::optional(FoundCheckpoint{record->step, path});
    return Status(whole.code(),
                  whole.message() + "; delete " + path + " to go on from the checkpoint before it");
  }
  if (records.empty()) return std::optional<FoundCheckpoint>();
  return NotFound(directory.checkpoints_path() + ": none of the " + std::to_string(records.size()) +
                  " checkpoints on record is there; put one back, or begin a new run");
}

}  // namespace tidemill
