#include "mcp/json_rpc.h"

namespace tidemill {
namespace {

bool IsRpcId(const RpcJson& id) {
  return id.is_string() || id.is_number_integer();
}

RpcParsed NoMessage(RpcParsed parsed, int64_t code, std::string why) {
  RpcJson id = std::move(parsed.message.id);
  parsed.message = RpcMessage();
  parsed.message.id = std::move(id);
  parsed.code = code;
  parsed.status = Invalid(std::move(why));
  return parsed;
}

RpcParsed ReadCall(const RpcJson& json, RpcParsed parsed) {
  RpcMessage& message = parsed.message;
  if (!json["method"].is_string()) {
    return NoMessage(std::move(parsed), kRpcInvalidRequest, "\"method\" must be a string");
  }
  message.method = json["method"].get<std::string>();
  if (const auto params = json.find("params"); params != json.end()) {
    if (!params->is_object()) {
      return NoMessage(std::move(parsed), kRpcInvalidParams, "\"params\" must be an object");
    }
    message.params = *params;
  }
  message.kind = json.contains("id") ? RpcMessage::Kind::kRequest : RpcMessage::Kind::kNotification;
  return parsed;
}

RpcParsed ReadAnswer(const RpcJson& json, RpcParsed parsed) {
  RpcMessage& message = parsed.message;
  const auto error = json.find("error");
  if (error == json.end()) {
    message.kind = RpcMessage::Kind::kResult;
    message.result = json["result"];
    return parsed;
  }
  message.kind = RpcMessage::Kind::kError;
  const bool right = error->is_object() && error->contains("code") &&
                     (*error)["code"].is_number_integer() && error->contains("message") &&
                     (*error)["message"].is_string() && !json.contains("result");
  if (!right) {
    return NoMessage(std::move(parsed), kRpcInvalidRequest,
                     "an \"error\" must be an object with a whole \"code\" and a \"message\", "
                     "without a \"result\" beside it");
  }
  message.error.code = (*error)["code"].get<int64_t>();
  message.error.message = (*error)["message"].get<std::string>();
  if (error->contains("data")) message.error.data = (*error)["data"];
  return parsed;
}

}  // namespace

RpcParsed ParseRpc(std::string_view text, const RpcLimits& limits) {
  RpcParsed parsed;
  if (text.size() > limits.bytes) {
    return NoMessage(std::move(parsed), kRpcInvalidRequest,
                     "a message of " + std::to_string(text.size()) + " bytes; at most " +
                         std::to_string(limits.bytes) + " are taken");
  }
  bool too_deep = false;
  const RpcJson::parser_callback_t watch = [&](int depth, RpcJson::parse_event_t, RpcJson&) {
    too_deep = too_deep || depth > limits.depth;
    return !too_deep;
  };
  const RpcJson json = RpcJson::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep) {
    return NoMessage(std::move(parsed), kRpcInvalidRequest,
                     "nested deeper than " + std::to_string(limits.depth) + " levels");
  }
  if (json.is_discarded()) return NoMessage(std::move(parsed), kRpcParseError, "no JSON");
  if (!json.is_object()) {
    return NoMessage(std::move(parsed), kRpcInvalidRequest, "a message must be one object");
  }
  const auto id = json.find("id");
  const bool answers = json.contains("result") || json.contains("error");
  if (id != json.end() && IsRpcId(*id)) parsed.message.id = *id;
  if (json.value("jsonrpc", RpcJson()) != "2.0") {
    return NoMessage(std::move(parsed), kRpcInvalidRequest, "\"jsonrpc\" must be \"2.0\"");
  }
  // An error may answer a message whose id could not be read.
  const bool may_be_null = json.contains("error");
  if (id != json.end() && !IsRpcId(*id) && !(may_be_null && id->is_null())) {
    return NoMessage(std::move(parsed), kRpcInvalidRequest,
                     "\"id\" must be a string or a whole number");
  }
  if (json.contains("method")) return ReadCall(json, std::move(parsed));
  if (answers && id != json.end()) return ReadAnswer(json, std::move(parsed));
  return NoMessage(std::move(parsed), kRpcInvalidRequest,
                   "neither a \"method\" nor an \"id\" with a \"result\" or an \"error\"");
}

std::string DumpRpc(const RpcMessage& message) {
  RpcJson json = {{"jsonrpc", "2.0"}};
  if (message.kind != RpcMessage::Kind::kNotification) json["id"] = message.id;
  switch (message.kind) {
    case RpcMessage::Kind::kRequest:
    case RpcMessage::Kind::kNotification:
      json["method"] = message.method;
      if (!message.params.empty()) json["params"] = message.params;
      break;
    case RpcMessage::Kind::kResult:
      json["result"] = message.result;
      break;
    case RpcMessage::Kind::kError:
      json["error"] = {{"code", message.error.code}, {"message", message.error.message}};
      if (!message.error.data.is_null()) json["error"]["data"] = message.error.data;
      break;
  }
  return json.dump(-1, ' ', false, RpcJson::error_handler_t::replace);
}

RpcMessage RpcResult(RpcJson id, RpcJson result) {
  RpcMessage message;
  message.kind = RpcMessage::Kind::kResult;
  message.id = std::move(id);
  message.result = std::move(result);
  return message;
}

RpcMessage RpcFailure(RpcJson id, int64_t code, std::string why) {
  RpcMessage message;
  message.kind = RpcMessage::Kind::kError;
  message.id = std::move(id);
  message.error = {.code = code, .message = std::move(why)};
  return message;
}

}  // namespace tidemill
