// The built-in shapes of secrets.
#pragma once

#include <span>

namespace tidemill {

struct SecretShape {
  const char* name;     // what stands in a secret's place: "[redacted:NAME]"
  const char* pattern;  // PCRE2
};

// Each begins with what is rare in a text, so that a long text is searched quickly, and repeats
// nothing without a bound that could be repeated in two ways.
std::span<const SecretShape> SecretShapes();

}  // namespace tidemill
