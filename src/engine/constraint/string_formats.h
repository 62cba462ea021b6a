// The formats of strings that are enforced, as patterns of texts that have them.
#pragma once

#include <optional>
#include <string_view>

namespace tidemill {

// nullopt: not one of them.
std::optional<std::string_view> PatternOfFormat(std::string_view format);

// Their names, for people.
extern const std::string_view kFormatNames;

}  // namespace tidemill
