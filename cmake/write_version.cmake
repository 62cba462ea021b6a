# Run at build time by cmake/version.cmake.
execute_process(COMMAND git describe --tags --always --dirty
  WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE describe RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(failed)
  set(describe "")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "core/version.h"

namespace tidemill {

std::string_view Version() { return "@VERSION@"; }
std::string_view TorchVersion() { return "@TORCH@"; }
std::string FullVersion() {
  const std::string_view describe = "@describe@";  // empty when not built from a checkout
  std::string version(Version());
  if (!describe.empty()) version += " (" + std::string(describe) + ")";
  return version;
}

}  // namespace tidemill
]])
