// Secrets and the tokens made from them. A token proves to the holder of the secret that it made
// the token itself, for these words; nobody else can make or guess one.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// 32 bytes from the system's random device, as 64 hex digits.
std::string NewSecret();

// The secret in the file at `path`: 64 hex digits. Where there is no such file one is made, for the
// owner alone (mode 0600). kInvalid: it holds something else, or others may read it.
Result<std::string> KeepSecret(const std::string& path);

// HMAC-SHA256 of the words, cut to 128 bits: 32 hex digits.
std::string TokenFor(std::string_view secret, std::string_view words);

// Takes the same time wherever the two differ.
bool SameToken(std::string_view a, std::string_view b);

}  // namespace tidemill
