// The source this program was built from. Filled in by the build (cmake/version.cmake) in a library
// of its own, tidemill_version, so that a commit relinks the program and not every test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidemill {

// Of the messages (proto/). Raised only when a message changes so that an older program would
// misunderstand it; workers of different versions do not share a run.
inline constexpr uint32_t kMessagesVersion = 4;

std::string_view Version();       // "0.1.0"
std::string_view TorchVersion();  // "1.13.1"; empty when built without libtorch
// "0.1.0 (v0.1.0-12-g3f2a9c1)", the form that is saved with a run.
std::string FullVersion();

}  // namespace tidemill
