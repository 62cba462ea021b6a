// Reasoning inside a field that clients return unread: `signature` of a thinking block,
// `encrypted_content` of a reasoning item. Some clients return only that field. It is not secret
// (base64 behind a mark); whoever holds it has been told the reasoning anyway.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tidemill {

std::string SealReasoning(std::string_view reasoning);

// nullopt: not made by SealReasoning, or no text.
std::optional<std::string> OpenReasoning(std::string_view sealed);

}  // namespace tidemill
