// Where ranks find each other before they are a group: a c10d store in a file or behind a port.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

// "file:PATH" or "HOST:PORT".
struct MeetingPlace {
  std::string file;  // empty: host and port count
  std::string host;
  uint16_t port = 0;
};

// kInvalid says what would be right.
Result<MeetingPlace> ParseMeeting(const std::string& text);

// The address of this machine by which it reaches `host`. kUnavailable: it does not.
Result<std::string> AddressTowards(const std::string& host, uint16_t port);

// "process 4711 on NAME"
std::string ThisProcess();

}  // namespace tidemill
