// The target of a request to the dashboard's server. A path that is taken stays below its root.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "http/http_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  HttpRequest request;
  const Status status =
      ParseTarget(std::string_view(reinterpret_cast<const char*>(data), size), request);
  if (!status.ok()) {
    (void)ErrorResponse(status);
    return 0;
  }
  if (request.path.empty() || request.path[0] != '/') std::abort();
  if (request.path.find('\0') != std::string::npos) std::abort();
  if ((request.path + "/").find("/../") != std::string::npos) std::abort();
  for (const auto& [name, value] : request.query) {
    if (const auto number = UintParameter(request, name); !number.ok()) {
      (void)ErrorResponse(number.status());
    }
    (void)NumberParameter(request, name);
    (void)BoolParameter(request, name);
  }
  return 0;
}
