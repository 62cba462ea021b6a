// Files that come with the program: the page ("web"), presets of agents ("agents"), the demo and
// the shapes of models
// ("examples"). In share/tidemill of the program's prefix where it is installed, and beside the
// program in a build.
#pragma once

#include <string>

namespace tidemill {

// Whether or not it is there.
std::string ShippedFolder(const std::string& name);

// "7b" is the shape of that name that comes with the program, unless there is such a path here.
// Anything else stays.
std::string ShapeFolder(const std::string& named);

}  // namespace tidemill
