#include "gateway/request_headers.h"

#include <charconv>

#include "core/secret.h"

namespace tidemill {
namespace {

constexpr size_t kRequestIdDigits = 24;
constexpr const char* kPinHeader = "x-policy-version";
constexpr const char* kCredentials[] = {"authorization", "x-api-key", "cookie",
                                        "proxy-authorization"};

}  // namespace

HttpRequest WithSessionOfPath(HttpRequest request) {
  const size_t end = request.path.rfind("/s/", 0) == 0 ? request.path.find('/', 3) : 0;
  if (end != std::string::npos && end > 3) {
    request.headers[kSessionNameHeader] = request.path.substr(3, end - 3);
    request.path.erase(0, end);
  }
  // As llama.cpp's server has them, too.
  for (const char* bare : {"/chat/completions", "/completions", "/embeddings", "/models"}) {
    if (request.path == bare) request.path.insert(0, "/v1");
  }
  return request;
}

RequestHeaderMap HeadersToKeep(RequestHeaderMap headers, const Tenant& tenant) {
  for (const char* name : kCredentials) headers.erase(name);
  if (tenant.session.empty()) return headers;
  std::erase_if(headers, [](const auto& header) {
    return header.first == kPinHeader || header.first.rfind("x-tidemill-", 0) == 0;
  });
  return headers;
}

Result<std::optional<uint64_t>> PinnedVersion(const RequestHeaderMap& headers) {
  const auto it = headers.find(kPinHeader);
  if (it == headers.end()) return std::optional<uint64_t>();
  uint64_t version = 0;
  const char* end = it->second.data() + it->second.size();
  const auto [stop, error] = std::from_chars(it->second.data(), end, version);
  if (error != std::errc() || stop != end) {
    return Invalid(std::string(kPinHeader) + ": must be a whole number");
  }
  return std::optional(version);
}

std::string NewRequestId() {
  return std::string(kRequestIdPrefix) + NewSecret().substr(0, kRequestIdDigits);
}

HttpHeaders RequestHeaders(const std::string& request_id) {
  return {{"x-request-id", request_id}, {"request-id", request_id}};
}

}  // namespace tidemill
