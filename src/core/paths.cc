#include "core/paths.h"

#include <algorithm>
#include <string>

#include "core/text.h"

namespace tidemill {

Status CheckPath(std::string_view path) {
  const auto wrong = [&](std::string_view why) {
    return Invalid("the path \"" + Beginning(path, 200) + "\" " + std::string(why));
  };
  if (path.empty()) return Invalid("a file needs a path");
  if (path.size() > 1000) return wrong("is longer than 1000 bytes");
  if (path.front() == '/') return wrong("must be relative to the workspace");
  if (!IsUtf8(path)) return wrong("is not valid UTF-8");
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; })) {
    return wrong("has a control character");
  }
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part.empty() || part == "." || part == "..")
      return wrong("has an empty, \".\" or \"..\" part");
    if (part.size() > 255) return wrong("has a part longer than 255 bytes");
    start = end + 1;
  }
  return Ok();
}

}  // namespace tidemill
