#include "tasks/line_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tidemill {

Status WriteLines(const std::string& path, size_t count,
                  const std::function<std::string(size_t)>& line) {
  const std::string unfinished = path + ".part";
  {
    std::ofstream output(unfinished, std::ios::binary | std::ios::trunc);
    if (!output) return Unavailable(path + ": cannot write it: " + std::strerror(errno));
    for (size_t i = 0; i < count; ++i) output << line(i) << '\n';
    output.flush();
    if (!output) return Unavailable(path + ": writing it failed; is the disk full?");
  }
  std::error_code error;
  std::filesystem::rename(unfinished, path, error);
  if (error) return Unavailable(path + ": cannot write it: " + error.message());
  return Ok();
}

}  // namespace tidemill
