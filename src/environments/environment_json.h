// The JSON of environments' protocols: objects keep the order of their keys, as they came.
#pragma once

#include <nlohmann/json.hpp>

namespace tidemill {

using EnvironmentJson = nlohmann::ordered_json;

}  // namespace tidemill
