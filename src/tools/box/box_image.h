// The program of the boxes' init, carried inside this one.
#pragma once

#include <string_view>

namespace tidemill {

std::string_view BoxInitImage();

}  // namespace tidemill
