#include "http/request_head.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>

namespace tidemill {
namespace {

using boost::beast::iequals;
using boost::beast::http::field;

HeadFault Bad(std::string why) {
  return {400, std::move(why)};
}

std::optional<HeadFault> CheckLengths(const boost::beast::http::request_header<>& head) {
  const size_t lengths = head.count(field::content_length);
  if (lengths > 1) return Bad("more than one Content-Length header");
  const auto length = head[field::content_length];
  const bool digits =
      std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (lengths > 0 && (length.empty() || !digits)) {
    return Bad("Content-Length must be one number");
  }
  const size_t encodings = head.count(field::transfer_encoding);
  if (encodings == 0) return std::nullopt;
  if (lengths > 0) return Bad("both Content-Length and Transfer-Encoding");
  if (encodings > 1 || head.version() < 11 || !iequals(head[field::transfer_encoding], "chunked")) {
    return Bad("a Transfer-Encoding other than \"chunked\"");
  }
  return std::nullopt;
}

}  // namespace

std::optional<HeadFault> CheckHeadBytes(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, bytes.find("\r\n\r\n"));
  if (head.find("\r\n ") == std::string_view::npos && head.find("\r\n\t") == std::string_view::npos)
    return std::nullopt;
  return Bad("a header that goes on in the next line (obsolete folding)");
}

std::optional<HeadFault> CheckRequestHead(const boost::beast::http::request_header<>& head) {
  const size_t hosts = head.count(field::host);
  if (hosts > 1) return Bad("more than one Host header");
  if (hosts == 0 && head.version() >= 11) return Bad("no Host header");
  if (auto fault = CheckLengths(head)) return fault;
  const size_t expectations = head.count(field::expect);
  if (expectations > 1 || (expectations == 1 && !iequals(head[field::expect], "100-continue"))) {
    return HeadFault{417, "an Expect header other than \"100-continue\""};
  }
  const size_t codings = head.count(field::content_encoding);
  if (codings > 1 || (codings == 1 && !iequals(head[field::content_encoding], "identity"))) {
    return HeadFault{415, "a body with a Content-Encoding: send it as it is"};
  }
  return std::nullopt;
}

}  // namespace tidemill
