#include "core/shipped_files.h"

#include <filesystem>

#include "core/child_process.h"

namespace tidemill {

namespace fs = std::filesystem;

namespace {

// Below the folder that holds all of this installation: a build's program lies in it, an installed
// one in bin/, and one that is started for another in libexec/tidemill/.
template <typename Is>
std::string FindBelow(std::initializer_list<fs::path> paths, Is is) {
  const fs::path beside = fs::path(ThisProgram()).parent_path();
  for (const fs::path& folder :
       {beside, beside.parent_path(), beside.parent_path().parent_path()}) {
    for (const fs::path& path : paths) {
      std::error_code error;
      if (is(folder / path, error)) return (folder / path).string();
    }
  }
  const bool installed = beside.filename() == "bin";
  return ((installed ? beside.parent_path() : beside) / *paths.begin()).string();
}

constexpr auto kExists = [](const fs::path& path, std::error_code& error) {
  return fs::exists(path, error);
};
constexpr auto kIsFile = [](const fs::path& path, std::error_code& error) {
  return fs::is_regular_file(path, error);
};

}  // namespace

std::string ShippedFolder(const std::string& name) {
  return FindBelow({fs::path("share/tidemill") / name}, kExists);
}

std::string ShippedProgram(const std::string& name) {
  return FindBelow({fs::path("libexec/tidemill") / name}, kIsFile);
}

std::string MainProgram() {
  return FindBelow({"bin/tidemill", "tidemill"}, kIsFile);
}

std::string ShapeFolder(const std::string& named) {
  std::error_code error;
  if (named.empty() || named.find('/') != std::string::npos || fs::exists(named, error)) {
    return named;
  }
  const std::string shape = ShippedFolder("examples") + "/shapes/" + named;
  return fs::exists(shape, error) ? shape : named;
}

}  // namespace tidemill
