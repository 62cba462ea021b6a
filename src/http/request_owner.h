// Who a request counts for, where what the server has is shared.
#pragma once

#include <compare>
#include <cstdint>

namespace tidemill {

struct RequestOwner {
  uint64_t entrance = 0;  // it came in by (HttpServer::AddEntrance); 0: the server's own address
  uint64_t tenant = 0;    // as the route says; 0: nobody it knows
  auto operator<=>(const RequestOwner&) const = default;
};

}  // namespace tidemill
