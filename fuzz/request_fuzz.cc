// A whole HTTP request through the parser the server uses and the checks behind it. Bytes come in
// two pieces, as on a network; the first byte says where they are cut.
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "http/access.h"
#include "http/http_message.h"
#include "http/request_head.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  namespace http = boost::beast::http;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  http::request_parser<http::string_body> parser;
  parser.eager(true);
  parser.header_limit(16 * 1024);
  parser.body_limit(64 * 1024);
  boost::beast::error_code error;
  size_t used = 0;
  for (const size_t until : {bytes.size() * data[0] / 256, bytes.size()}) {
    while (!parser.is_done() && used < until) {
      const size_t took = parser.put(boost::asio::buffer(bytes.data() + used, until - used), error);
      used += took;
      if (error == http::error::need_more) error = {};
      if (error) return 0;
      if (took == 0) break;
    }
  }
  if (CheckHeadBytes(bytes) || !parser.is_header_done() || CheckRequestHead(parser.get())) return 0;
  const auto& head = parser.get();
  if (head.count(http::field::transfer_encoding) > 0 && !parser.chunked()) std::abort();
  if (head.count(http::field::host) > 1) std::abort();
  const auto target = head.target();
  HttpRequest request;
  (void)ParseTarget({target.data(), target.size()}, request);
  const auto host = head[http::field::host];
  (void)HostIsLoopback({host.data(), host.size()});
  return 0;
}
