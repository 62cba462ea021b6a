// The formats of strings that are enforced, as patterns of texts that have them.
#pragma once

#include <optional>
#include <string_view>

namespace tidemill {

// nullopt: no draft of JSON Schema knows it, so it says nothing about documents.
std::optional<std::string_view> PatternOfFormat(std::string_view format);

}  // namespace tidemill
