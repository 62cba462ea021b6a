// One request to a server of this program, from a command.
#pragma once

#include <chrono>
#include <string>

#include "core/status.h"
#include "http/http_message.h"

namespace tidemill {

struct HttpQuestion {
  std::string url{};  // "http://127.0.0.1:8000", a numeric address
  std::string method = "POST";
  std::string path = "/";
  std::string bearer{};
  std::string body{};
  std::chrono::milliseconds timeout{600'000};
  size_t answer_bytes_max = size_t{64} << 20;
};

// Blocks. kInvalid: the url. kUnavailable: nobody listens there, or the answer is no HTTP.
// kTimeout.
Result<HttpResponse> AskHttp(const HttpQuestion& question);

}  // namespace tidemill
