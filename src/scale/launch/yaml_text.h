// JSON as YAML for people: block style, one document. What a YAML 1.1 or 1.2 parser reads from it
// is the value that was given.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tidemill {

std::string YamlText(const nlohmann::ordered_json& json);

}  // namespace tidemill
