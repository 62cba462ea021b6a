// Which pages of other origins may use the gateway from a browser.
#pragma once

#include <string>
#include <vector>

#include "http/http_message.h"

namespace tidemill {

// Immutable, thread-safe.
class Cors {
 public:
  // Origins as browsers send them, "https://chat.example.org", or "*" for all. None: no page of
  // another origin.
  explicit Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  bool on() const { return !origins_.empty(); }
  // Whether a page sent it that may not ask. A request without an origin is no page's.
  bool Refuses(const HttpRequest& request) const;
  // What the answer to the request says to the browser; nothing where it is no page's.
  std::vector<std::pair<std::string, std::string>> HeadersFor(const HttpRequest& request) const;
  // The answer to a browser that asks first (OPTIONS).
  HttpResponse Preflight(const HttpRequest& request) const;

 private:
  bool Allows(std::string_view origin) const;

  const std::vector<std::string> origins_;
};

}  // namespace tidemill
