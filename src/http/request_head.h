// What a request's head must be beyond what the parser asks: one reading of where it ends and whom
// it is for, so that a proxy before us cannot read it in another way (request smuggling).
#pragma once

#include <boost/beast/http/message.hpp>

#include "core/status.h"

namespace tidemill {

// kInvalid says what is wrong. The connection must be closed then: where the request ends is not
// known.
Status CheckRequestHead(const boost::beast::http::request_header<>& head);

}  // namespace tidemill
