// Deletion of sessions with its proof: after the rows are gone, every file of the run is searched
// for what they held.
//
//   EraseWhat -> EraseSessions (store) -> erasers -> traces of what was deleted -> search of all
//   files -> EraseReport
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "store/session_eraser.h"

namespace tidemill {

// Whose data goes.
struct EraseNames {
  std::vector<uint64_t> sessions{};
  std::vector<std::string> tenants{};  // of these sessions, or the one that was asked for
};

// A place outside of the tables of run.db where something of sessions is kept: memory, a cache,
// files. A part that keeps some adds one; a table gets a line in store/session_eraser.cc instead.
struct Eraser {
  std::string name{};  // of what it deletes, in the plural: "dead letters"
  // How many are gone. Nothing to delete is no failure; a failure is reported, with the rest done.
  std::function<Result<uint64_t>(const EraseNames& names)> erase{};
};

struct EraseReport {
  Erased erased{};                                         // without bodies and texts
  std::vector<std::pair<std::string, uint64_t>> others{};  // what erasers deleted, by name
  std::vector<std::string> failed{};                       // erasers that failed, with the reason
  uint64_t traces = 0;  // pieces of what was deleted that were searched for
  uint64_t files = 0;   // searched
  uint64_t bytes = 0;
  std::vector<std::string> found{};   // files that still hold one; empty: proven
  std::vector<std::string> unread{};  // files that could not be searched, with the reason
};

// Of the run at `path`, whose writer, if there is one, has dropped it from memory. Failures as
// EraseSessions.
Result<EraseReport> EraseFromRun(const std::string& path, const EraseWhat& what,
                                 const std::vector<Eraser>& erasers = {});

// Pieces of 24 bytes of a body from the database, and of what was said in a conversation's JSON.
std::vector<std::string> TracesOfBody(const std::string& body);
std::vector<std::string> TracesOfText(const std::string& json);

// {"sessions": [..], "shown_to": [..], "deleted": {..}, "failed": [..], "used_by": [..],
// "checkpoint_before": .., "searched": {..}}
std::string EraseJson(const EraseReport& report);

}  // namespace tidemill
