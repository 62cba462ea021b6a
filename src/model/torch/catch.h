// The edge at which libtorch's exceptions become a Status.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

inline std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// Runs `body`, which returns a Result<T>; what it throws becomes kInternal with `what` in front.
template <typename T, typename Body>
Result<T> CatchTorch(std::string_view what, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return Internal(FirstLine(error.what())).WithContext(what);
  }
}

// The same for a body that returns a Status.
template <typename Body>
Status CatchTorchStatus(std::string_view what, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return Internal(FirstLine(error.what())).WithContext(what);
  }
}

}  // namespace tidemill
