// JSON of the wire: bounded where it comes in, always valid UTF-8 where it goes out.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "gateway/chat_request.h"

namespace tidemill {

// Keeps the order of keys. kInvalid says what is wrong and where: no JSON, a key twice in one
// object, deeper or larger than the limits. Takes time linear in the text.
Result<WireJson> ParseWire(std::string_view text, const WireLimits& limits);

// On one line. Bytes that are no UTF-8 become U+FFFD.
std::string DumpWire(const WireJson& value);

// A value for an error message: `"ten"`, `3.5`, `an object`; long strings are cut.
std::string ShownWire(const WireJson& value);

// One server-sent event; no `event:` line where `name` is empty.
std::string ServerSentEvent(std::string_view name, const WireJson& data);

}  // namespace tidemill
