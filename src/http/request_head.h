// Rules for a request's head beyond the parser's: one reading of where it ends, of what
// its body is and of whom it is for, so that a proxy before us cannot read it in another way
// (request smuggling).
#pragma once

#include <boost/beast/http/message.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tidemill {

// Why a request is refused. The connection must be closed then: where the request ends is not
// known.
struct HeadFault {
  int status = 400;
  std::string why;
};

// Checks on what the parser drops, in the bytes of a head as they came, the whole or its beginning.
// Bytes behind the head are not looked at.
std::optional<HeadFault> CheckHeadBytes(std::string_view bytes);

std::optional<HeadFault> CheckRequestHead(const boost::beast::http::request_header<>& head);

}  // namespace tidemill
