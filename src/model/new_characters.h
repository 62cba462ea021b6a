// Characters of Unicode 15 and 16, which PCRE2 10.42 (Unicode 14) takes for unassigned.
#pragma once

#include <string>
#include <string_view>

namespace tidemill {

// Those of a general category ("L", "Nd") or of the script Han, as ranges inside of a class of
// PCRE2's; empty: none, or the property is another.
std::string NewCharactersOf(std::string_view property);

// Whether valid UTF-8 has any of them.
bool HasNewCharacters(std::string_view valid_utf8);

}  // namespace tidemill
