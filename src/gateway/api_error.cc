#include "gateway/api_error.h"

#include "gateway/wire_json.h"

namespace tidemill {
namespace {

bool IsAnthropic(Api api) {
  return api == Api::kMessages || api == Api::kCountTokens;
}

std::string_view AnthropicErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string_view OpenAiErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

WireJson TextOrNull(const std::string& text) {
  return text.empty() ? WireJson(nullptr) : WireJson(text);
}

}  // namespace

std::string_view ErrorType(Api api, int status) {
  return IsAnthropic(api) ? AnthropicErrorType(status) : OpenAiErrorType(status);
}

WireJson ErrorObject(Api api, const ApiError& error) {
  if (!IsAnthropic(api)) {
    return {{"message", error.message},
            {"type", ErrorType(api, error.status)},
            {"param", TextOrNull(error.param)},
            {"code", TextOrNull(error.code)}};
  }
  WireJson object = {{"type", ErrorType(api, error.status)}, {"message", error.message}};
  if (error.code == "thread_unsupported_request") {
    // The official client looks for exactly this and sends the whole conversation instead.
    object["details"] = {{"error_code", error.code}, {"unsupported", {error.param}}};
  }
  return object;
}

std::string ErrorBody(Api api, const ApiError& error, std::string_view request_id) {
  WireJson body;
  if (IsAnthropic(api)) body["type"] = "error";
  body["error"] = ErrorObject(api, error);
  if (IsAnthropic(api) && !request_id.empty()) body["request_id"] = request_id;
  return DumpWire(body);
}

}  // namespace tidemill
