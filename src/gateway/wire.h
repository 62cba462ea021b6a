// The gateway's wire in three functions: which API a path is, what a body asks, what the list of
// models says. Answers are in answer.h, errors in api_error.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api_error.h"
#include "gateway/chat_request.h"

namespace tidemill {

// The API of a POST to that path (without its query); nullopt: none.
std::optional<Api> ApiOfPath(std::string_view path);

// Either a request or an error.
struct ParsedRequest {
  std::optional<ChatRequest> request;
  ApiError error;  // where there is no request

  bool ok() const { return request.has_value(); }
};

// Never throws, whatever the body. Takes time linear in it.
ParsedRequest ParseRequest(Api api, std::string_view body, const WireLimits& limits);

struct ServedModel {
  std::string name;
  int64_t created_s = 0;
  int64_t context_tokens = 0;
};

// GET /v1/models. Anthropic's clients name a version in `anthropic-version`, which makes the body
// theirs.
std::string ModelsBody(const std::vector<ServedModel>& models, bool anthropic);
// GET /v1/models/NAME.
std::string ModelBody(const ServedModel& model, bool anthropic);

}  // namespace tidemill
