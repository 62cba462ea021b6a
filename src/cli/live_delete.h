// tidemill live delete: sessions and all that was kept of them, gone and proven gone.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "store/session_eraser.h"

namespace tidemill {

struct LiveDeleteArguments {
  std::string folder, run;
  EraseWhat what{};
  bool json = false;
};

// The exit status: 3: deleted, but something is left in the files or could not be searched.
int LiveDelete(const LiveDeleteArguments& arguments);

// Asks the process that serves the run: POST `path` with `body`. kUnavailable: none does.
Result<std::string> AskLiveRun(const std::string& run_path, const std::string& path,
                               const std::string& body);

}  // namespace tidemill
