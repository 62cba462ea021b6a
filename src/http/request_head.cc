#include "http/request_head.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>

namespace tidemill {

Status CheckRequestHead(const boost::beast::http::request_header<>& head) {
  using boost::beast::http::field;
  const size_t hosts = head.count(field::host);
  if (hosts > 1) return Invalid("more than one Host header");
  if (hosts == 0 && head.version() >= 11) return Invalid("no Host header");
  const size_t lengths = head.count(field::content_length);
  if (lengths > 1) return Invalid("more than one Content-Length header");
  const size_t encodings = head.count(field::transfer_encoding);
  if (encodings == 0) return Ok();
  if (lengths > 0) return Invalid("both Content-Length and Transfer-Encoding");
  if (encodings > 1 || head.version() < 11 ||
      !boost::beast::iequals(head[field::transfer_encoding], "chunked")) {
    return Invalid("a Transfer-Encoding other than \"chunked\"");
  }
  return Ok();
}

}  // namespace tidemill
