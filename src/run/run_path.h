// Where a run that is named on the command line is: a name below the folder of runs, or a path.
#pragma once

#include <string>
#include <utility>

namespace tidemill {

// {folder, name}
inline std::pair<std::string, std::string> SplitRunPath(const std::string& run,
                                                        const std::string& folder) {
  const size_t end = run.find_last_not_of('/');
  const std::string path = run.substr(0, end == std::string::npos ? 0 : end + 1);
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {folder, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace tidemill
