// Errors as clients read them, in the shape of the API each speaks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/chat_request.h"

namespace tidemill {

struct ApiError {
  int status = 400;  // of HTTP; what kind of error it is follows from it
  std::string message{};
  std::string param{};  // the field, "messages[2].content[0].text"; empty: none
  // For programs: "unsupported_parameter", "context_length_exceeded", "rate_limit_exceeded",
  // "model_not_found", "thread_unsupported_request"; empty: none.
  std::string code{};
};

// The type for a status: "invalid_request_error" of 400, "overloaded_error" of 529 ..
std::string_view ErrorType(Api api, int status);

// The body of an HTTP answer that is an error. `request_id` may be empty.
std::string ErrorBody(Api api, const ApiError& error, std::string_view request_id = {});

// The error object itself: `error` of the body.
WireJson ErrorObject(Api api, const ApiError& error);

}  // namespace tidemill
