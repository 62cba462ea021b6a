// The API key of an endpoint, from a file or the environment.
#pragma once

#include <string>

#include "core/status.h"

namespace tidemill {

// Empty where neither is named. kInvalid: the file or the variable holds no key, or one with
// characters that no key has.
Result<std::string> ReadEndpointKey(const std::string& key_file, const std::string& key_env);

}  // namespace tidemill
