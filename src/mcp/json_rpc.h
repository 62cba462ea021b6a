// JSON-RPC 2.0 as the Model Context Protocol uses it, for its servers and its clients: one message
// a text, no batches. No I/O.
//
//   text -> ParseRpc -> RpcMessage -> DumpRpc -> text
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

using RpcJson = nlohmann::ordered_json;

// The codes that the standard names.
enum RpcErrorCode : int64_t {
  kRpcParseError = -32700,      // no JSON
  kRpcInvalidRequest = -32600,  // JSON, but no message
  kRpcMethodNotFound = -32601,
  kRpcInvalidParams = -32602,
  kRpcInternalError = -32603,
};

struct RpcError {
  int64_t code = 0;
  std::string message;
  RpcJson data = nullptr;  // null: none
};

struct RpcMessage {
  enum class Kind : uint8_t { kRequest, kNotification, kResult, kError };
  Kind kind = Kind::kRequest;
  // A string or a whole number. Null of a notification, and of an error that answers a message
  // whose id could not be read.
  RpcJson id = nullptr;
  std::string method{};                // of requests and notifications
  RpcJson params = RpcJson::object();  // likewise; an object
  RpcJson result = nullptr;
  RpcError error{};
};

struct RpcLimits {
  size_t bytes = size_t{4} << 20;
  int depth = 64;  // of objects and arrays in each other
};

struct RpcParsed {
  Status status = Ok();               // kInvalid: it is no message
  int64_t code = kRpcInvalidRequest;  // of the error that says so to the sender
  RpcMessage message{};               // of what is no message, the id alone, where it could be read
};
RpcParsed ParseRpc(std::string_view text, const RpcLimits& limits = {});

// On one line. Bytes that are no UTF-8 become U+FFFD.
std::string DumpRpc(const RpcMessage& message);

RpcMessage RpcResult(RpcJson id, RpcJson result);
RpcMessage RpcFailure(RpcJson id, int64_t code, std::string message);

}  // namespace tidemill
