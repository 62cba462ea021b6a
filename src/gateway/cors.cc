#include "gateway/cors.h"

#include <algorithm>

namespace tidemill {
namespace {

// A page of the server's own address is of no other origin.
bool IsOwn(std::string_view origin, std::string_view host) {
  const size_t at = origin.find("://");
  return at != std::string_view::npos && !host.empty() && origin.substr(at + 3) == host;
}

}  // namespace

bool Cors::Allows(std::string_view origin) const {
  return std::any_of(origins_.begin(), origins_.end(), [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

bool Cors::Refuses(const HttpRequest& request) const {
  const std::string_view origin = request.Header("origin");
  return on() && !origin.empty() && !IsOwn(origin, request.Header("host")) && !Allows(origin);
}

std::vector<std::pair<std::string, std::string>> Cors::HeadersFor(
    const HttpRequest& request) const {
  const std::string_view origin = request.Header("origin");
  if (origin.empty() || !Allows(origin)) return {};
  return {{"Access-Control-Allow-Origin", OneHeaderValue(std::string(origin))},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", "x-request-id, x-session-id, x-tidemill-warning"}};
}

HttpResponse Cors::Preflight(const HttpRequest& request) const {
  HttpResponse response;
  response.status = 204;
  response.headers = HeadersFor(request);
  if (response.headers.empty()) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  const std::string asked(request.Header("access-control-request-headers"));
  response.headers.emplace_back("Access-Control-Allow-Headers",
                                asked.empty() ? "*" : OneHeaderValue(asked));
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace tidemill
