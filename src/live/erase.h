// Deletion of sessions with its proof: after the rows are gone, every file of the run is searched
// for what they held.
//
//   EraseWhat -> EraseSessions (store) -> traces of what was deleted -> search of all files
//   -> EraseReport
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "store/session_eraser.h"

namespace tidemill {

struct EraseReport {
  Erased erased{};      // without bodies and texts
  uint64_t traces = 0;  // pieces of what was deleted that were searched for
  uint64_t files = 0;   // searched
  uint64_t bytes = 0;
  std::vector<std::string> found{};   // files that still hold one; empty: proven
  std::vector<std::string> unread{};  // files that could not be searched, with the reason
};

// Of the run at `path`, whose writer, if there is one, has dropped it from memory. Failures as
// EraseSessions.
Result<EraseReport> EraseFromRun(const std::string& path, const EraseWhat& what);

// Pieces of 24 bytes of a body from the database, and of what was said in a conversation's JSON.
std::vector<std::string> TracesOfBody(const std::string& body);
std::vector<std::string> TracesOfText(const std::string& json);

// {"sessions": [..], "deleted": {..}, "used_by": [..], "checkpoint_before": .., "searched": {..}}
std::string EraseJson(const EraseReport& report);

}  // namespace tidemill
