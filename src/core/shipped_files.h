// Files that come with the program: the page ("web"), presets of agents ("agents"), the demo and
// the shapes of models ("examples"), in share/tidemill of the prefix. Programs that it starts, in
// libexec/tidemill. In a build both folders lie beside the program.
#pragma once

#include <string>

namespace tidemill {

// Whether or not it is there.
std::string ShippedFolder(const std::string& name);
std::string ShippedProgram(const std::string& name);

// The program `tidemill`, also where one of those it starts asks.
std::string MainProgram();

// "7b" is the shape of that name that comes with the program, unless there is such a path here.
// Anything else stays.
std::string ShapeFolder(const std::string& named);

}  // namespace tidemill
