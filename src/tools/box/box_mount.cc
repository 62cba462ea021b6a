#include "tools/box/box_mount.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace tidemill {
namespace {

// What a box has of its own.
constexpr const char* kPlacesOfTheBox[] = {"/app",   "/box", "/dev",     "/logs",     "/proc",
                                           "/tests", "/tmp", "/var/tmp", "/workspace"};

bool IsPlaceOfTheBox(const std::string& path) {
  return std::any_of(std::begin(kPlacesOfTheBox), std::end(kPlacesOfTheBox),
                     [&](const std::string& own) { return (path + "/").starts_with(own + "/"); });
}

}  // namespace

Result<BoxMount> ParseBoxMount(const std::string& text) {
  const size_t colon = text.find(':');
  BoxMount mount{.from = text.substr(0, colon),
                 .to = colon == std::string::npos ? text : text.substr(colon + 1)};
  for (const std::string& path : {mount.from, mount.to}) {
    if (path.empty() || path[0] != '/') {
      return Invalid("must be absolute paths, FROM or FROM:TO, got \"" + text + "\"");
    }
  }
  std::error_code error;
  if (!std::filesystem::exists(mount.from, error)) return Invalid("there is no " + mount.from);
  if (IsPlaceOfTheBox(mount.to)) {
    return Invalid(mount.to +
                   " is a place that each box has of its own; say where the mount is to be: \"" +
                   mount.from + ":/agent\"");
  }
  return mount;
}

}  // namespace tidemill
