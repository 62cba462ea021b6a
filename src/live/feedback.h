// POST /v1/feedback: what a person or a program says of a session, a turn or a part of a turn.
//
//   body -> ParseFeedback -> Feedback -> (the session is found) -> v1::Signal
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

struct Feedback {
  std::string request_id{};  // "req_..": names the turn; empty: the session is named
  std::string session{};     // the client's name for it, or ours ("s17")
  uint32_t choice = 0;       // of the answers to the request
  uint32_t span_from = 0;    // characters of the answer; both 0: all of it
  uint32_t span_to = 0;
  std::string source = "person";
  std::string by{};
  double score = 0;  // -1 to 1
  std::string text{};
  bool end = false;  // the session ends with it
};

// kInvalid names the field, what was wrong and what would be right. `session` is the one that URL
// or header name; empty: none.
Result<Feedback> ParseFeedback(std::string_view body, const std::string& session);

}  // namespace tidemill
