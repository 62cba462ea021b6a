#include "mcp/event_lines.h"

#include <optional>

namespace tidemill {

std::vector<std::string> DataOfEvents(std::string_view stream) {
  std::vector<std::string> events;
  std::optional<std::string> data;
  while (!stream.empty()) {
    const size_t end = stream.find_first_of("\r\n");
    if (end == std::string_view::npos) break;  // no whole line
    const std::string_view line = stream.substr(0, end);
    const bool both = stream.substr(end, 2) == "\r\n";
    stream.remove_prefix(end + (both ? 2 : 1));
    if (line.empty()) {
      if (data) events.push_back(std::move(*data));
      data.reset();
      continue;
    }
    const size_t colon = line.find(':');
    if (line.substr(0, colon) != "data") continue;
    std::string_view value =
        colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    data = data ? *data + "\n" + std::string(value) : std::string(value);
  }
  return events;
}

}  // namespace tidemill
