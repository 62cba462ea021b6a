// Takes sessions out of run.db so that nothing of them is left in its files: rows, free pages, log.
//
//   EraseWhat -> rows deleted, numbers kept -> VACUUM -> log cut to nothing -> Erased
//
// Works beside the process that writes the run: what is deleted leaves its number behind, and the
// writer refuses whatever comes for that number later.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "store/run_db.h"

namespace tidemill {

// One session, or all of a tenant.
struct EraseWhat {
  std::optional<uint64_t> session{};
  std::string tenant{};
  // Sessions of the same that may be on their way to the store: their numbers are taken, too.
  std::vector<uint64_t> under_way{};
};

struct Erased {
  // A step that trained on something that was deleted.
  struct Use {
    uint64_t step = 0;
    uint64_t version = 0;    // published by it
    bool abandoned = false;  // its weights were left behind by a resume
  };
  std::vector<uint64_t> sessions{};
  std::vector<std::string> tenants{};  // whose they were
  // Rows that held something, by what they are.
  std::vector<std::pair<std::string, uint64_t>> rows{};
  std::vector<Use> uses{};  // in the order of steps
  // The newest whose weights have seen none of it. None: nothing was used, or there is none.
  std::optional<CheckpointRecord> before{};
  // Sessions that are left and were shown cases of it: their prompts hold them.
  std::vector<uint64_t> shown_to{};
  std::vector<std::string> bodies{};  // as the files had them
  std::vector<std::string> texts{};   // what was said, for a search
};

// The numbers of what is stored of it.
Result<std::vector<uint64_t>> SessionsToErase(const std::string& db_path, const EraseWhat& what);

// kNotFound: nothing of it is stored. kUnavailable: somebody else writes for too long, or reads for
// longer than `patience`; in the second case the rows are gone, but files may still hold what they
// said, and doing it again finishes it.
Result<Erased> EraseSessions(const std::string& db_path, const EraseWhat& what,
                             Duration patience = std::chrono::seconds(10));

// Calls `take` with every body that is stored in the places where sessions are.
Status ForEachBodyLeft(const std::string& db_path,
                       const std::function<void(std::string_view body)>& take);

}  // namespace tidemill
