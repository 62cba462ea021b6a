// What a simulated client knows of a conversation it leads.
#pragma once

#include <cstdint>
#include <string>

#include "gateway/chat_request.h"

namespace tidemill::sim {

// One line of a conversation. A client with two of them goes on from two places of one session.
struct ClientThread {
  std::string session;  // the header's; empty: the client names none
  std::string speaker;  // makes its messages its own
  WireJson history = WireJson::array();
  int questions_left = 0;
  // The question that is open.
  uint64_t question = 0;
  bool answered = true;
  bool end = false;   // the session ends with it
  bool lost = false;  // an answer did not arrive: the client knows that it sends again
  int arriving = 0;   // answers that the server is done with and the client has not seen
  int open_requests = 0;
  bool haunted = false;  // it repeats answers that were deleted; they may be taken for others
  int asked_in = 0;      // which incarnation of the server
  // The next prompt must go on from this answer; empty: anything goes.
  std::string exact;
};

}  // namespace tidemill::sim
