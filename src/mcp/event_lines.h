// The data of server-sent events. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

// Of each whole event, in order: its lines of data, joined. Events without data do not count.
std::vector<std::string> DataOfEvents(std::string_view stream);

}  // namespace tidemill
