// Fields of JSON bodies, read by name; what is wrong is told with the name. Absent and null are the
// same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "gateway/wire_json.h"

namespace tidemill {

// A whole body: an object. kInvalid: no JSON, none such, or deeper or larger than is read.
Result<WireJson> ParseFields(std::string_view text);

// Null: absent, or `json` is no object.
const WireJson* FieldOf(const WireJson& json, const char* name);

// kInvalid: absent, another type, or outside of the bounds.
Result<std::string> TextField(const WireJson& json, const char* name);
Result<int64_t> WholeField(const WireJson& json, const char* name, int64_t least, int64_t most);
// The default where it is absent.
Result<int64_t> WholeField(const WireJson& json, const char* name, int64_t least, int64_t most,
                           int64_t absent);
Result<double> NumberField(const WireJson& json, const char* name, double absent);
Result<bool> BoolField(const WireJson& json, const char* name, bool absent);
Result<std::optional<std::string>> OptionalText(const WireJson& json, const char* name);

// A list of token ids; null is none.
Status ReadTokens(const WireJson* list, std::vector<int32_t>& tokens);

}  // namespace tidemill
