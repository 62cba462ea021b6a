#include "gateway/error_reply.h"

#include <algorithm>

namespace tidemill {

HttpResponse ErrorReply(Api api, const ApiError& error, const HttpHeaders& headers,
                        std::chrono::seconds retry_after) {
  HttpResponse response;
  response.status = error.status;
  response.headers = headers;
  std::string request_id;
  for (const auto& [name, value] : headers) {
    if (name == "x-request-id") request_id = value;
  }
  if (error.status == 429 || error.status == 503 || error.status == 529) {
    const auto seconds = std::clamp<int64_t>(retry_after.count(), 1, 60);
    response.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  response.body = ErrorBody(api, error, request_id);
  return response;
}

ApiError ErrorOf(const Status& status, bool pinned) {
  ApiError error{.status = 503, .message = status.message()};
  switch (status.code()) {
    case Code::kInvalid:
      error.status = 400;
      break;
    case Code::kExists:
      error.status = 409;
      break;
    case Code::kNotFound:
    case Code::kUnavailable:
      if (pinned) {
        error.status = 409;
        error.code = "policy_version_unavailable";
      }
      break;
    case Code::kFull:
      error.status = 429;
      error.code = "rate_limit_exceeded";
      break;
    case Code::kInternal:
    case Code::kCorrupt:
      error.status = 500;
      break;
    default:
      break;
  }
  return error;
}

}  // namespace tidemill
