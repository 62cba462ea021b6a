// Where a test finds files of the source tree and programs of the build. The two paths stand in one
// small source that CMake writes (cmake/tidemill.cmake), so that no other object depends on where
// the tree is.
#pragma once

#include <string>

namespace tidemill {

std::string SourceDir();
std::string BinaryDir();

}  // namespace tidemill
