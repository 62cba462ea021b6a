// One value of the config: how it is read from TOML, checked, written and described. Private to
// config.cc.
#pragma once

#include <string>
#include <string_view>

#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

#include "config/config.h"
#include "core/status.h"

namespace tidemill {

// Sets the field. kInvalid, and the field as it was: `got .., expected ..`, without place and key.
Status AssignValue(const Binder::Field& field, const toml::node& node, const KeyOptions& options);

// The field's value fits its own options. A default that does not is a mistake in the program.
bool ValueInRange(const Binder::Field& field, const KeyOptions& options);

// As TOML: 3, "text", "30s", ["a", "b"], {"x" = 1.0}.
std::string FormatValue(const Binder::Field& field);

std::string TypeName(const Binder::Field& field);  // "whole number"
std::string LimitsText(const Binder::Field& field,
                       const KeyOptions& options);  // "0 to 1000", or ""
std::string ExpectedText(const Binder::Field& field,
                         const KeyOptions& options);  // "a whole number, 0 to 1000"

// The same from what stands right of the '=' of --set; see Binder::Set for how it is written.
Status AssignText(const Binder::Field& field, std::string_view text, const KeyOptions& options);

// A TOML basic string with its quotes.
std::string QuoteToml(std::string_view text);

}  // namespace tidemill
