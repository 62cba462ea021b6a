// A request and its answer, free of the HTTP library: what handlers see.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct HttpRequest {
  std::string method;  // "GET", "HEAD", "POST"; "OPTIONS" with HttpOptions::other_origins
  std::string path;    // decoded, begins with '/', no empty, "." or ".." part
  std::map<std::string, std::string> query;  // decoded; the last of a repeated name counts
  // Names in lower case; the values of a repeated one are joined with ", ".
  std::map<std::string, std::string> headers;
  std::string body;
  std::string last_event_id{};
  bool admin = false;     // carries one of the server's tokens
  uint64_t entrance = 0;  // it came in by (HttpServer::AddEntrance); 0: the server's own address
  // The route took it for this request; it goes when the last copy does. Shared: requests are
  // copied.
  std::shared_ptr<const void> hold{};

  // The value of a query parameter, or nullptr.
  const std::string* Find(const std::string& name) const;
  // The value of a header by its name in lower case; empty: it is not there.
  std::string_view Header(const std::string& name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// {"error": message} with this status.
HttpResponse ErrorResponse(int status, std::string_view message);
// The same with the HTTP status that fits.
HttpResponse ErrorResponse(const Status& status);

// A line or two for people and probes.
HttpResponse TextResponse(int status, std::string body);
// Metrics in Prometheus' text format.
HttpResponse MetricsResponse(std::string text);

// As the value of one header: what would end it, or is no character, becomes '?'. Values may hold
// what a client wrote.
std::string OneHeaderValue(std::string value);

// Takes the target of a request line apart into path and query. kInvalid: not "/..", a bad
// %-escape, a NUL, or a path that tries to leave its root.
Status ParseTarget(std::string_view target, HttpRequest& request);

// Query parameters as numbers; kInvalid names the parameter.
Result<std::optional<uint64_t>> UintParameter(const HttpRequest& request, const std::string& name);
Result<std::optional<double>> NumberParameter(const HttpRequest& request, const std::string& name);
Result<std::optional<bool>> BoolParameter(const HttpRequest& request, const std::string& name);

}  // namespace tidemill
