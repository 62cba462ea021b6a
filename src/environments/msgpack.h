// MessagePack as JSON, without I/O: what environment servers send is data, nothing in it is code.
//
//   bytes -> ReadMsgpack -> EnvironmentJson -> WriteMsgpack -> bytes
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/status.h"
#include "environments/environment_json.h"

namespace tidemill {

struct MsgpackLimits {
  size_t bytes = size_t{64} << 20;
  size_t values = size_t{1} << 24;  // each takes many times its bytes
  int depth = 100;                  // of maps and arrays in each other
};

// Whole numbers as keys of a map become their digits; binary values stay what they are. kInvalid:
// it is none, it is over a limit, it has an extension type, or something follows it.
Result<EnvironmentJson> ReadMsgpack(std::string_view bytes, const MsgpackLimits& limits = {});

std::string WriteMsgpack(const EnvironmentJson& value);

}  // namespace tidemill
