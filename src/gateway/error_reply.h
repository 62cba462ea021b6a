// An error as an HTTP answer in the shape of its API, with the headers clients act on.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "gateway/api_error.h"
#include "http/http_message.h"

namespace tidemill {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// `headers` go with it; "x-request-id" among them is repeated in the body where the API has a place
// for it. What passes (429, 503, 529) gets `retry_after` of 1 to 60 seconds: without it some agents
// give up at once, above two minutes others do.
HttpResponse ErrorReply(Api api, const ApiError& error, const HttpHeaders& headers,
                        std::chrono::seconds retry_after = std::chrono::seconds(1));

// How a failure of the recorder or the engine is told. `pinned`: the request named a version.
ApiError ErrorOf(const Status& status, bool pinned);

}  // namespace tidemill
