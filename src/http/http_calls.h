// Many HTTP calls at once. Each answer comes in pieces as they arrive, and nothing waits.
//
//   Begin(call) -> OnPiece, OnPiece, .. -> OnEnd      or Cancel: nothing more comes
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "http/http_peer.h"

namespace tidemill {

using HttpCallId = uint64_t;

// Told on the thread that makes the calls, never inside of Begin or Cancel.
class HttpCallUser {
 public:
  virtual ~HttpCallUser() = default;
  // Before the first piece, or the end: the fields of the answer's head, names in lower case.
  virtual void OnHead(HttpCallId, const std::vector<std::pair<std::string, std::string>>&) {}
  // Bytes of the body, in order; `status` is the answer's.
  virtual void OnPiece(HttpCallId call, int status, std::string_view bytes) = 0;
  // The last word: the answer's status, or why there is no whole answer (kUnavailable).
  virtual void OnEnd(HttpCallId call, const Result<int>& status) = 0;
};

// Belongs to one thread.
class HttpCalls {
 public:
  virtual ~HttpCalls() = default;
  // `silence`: the longest time until the first piece, and between two. `user` must outlive the
  // call.
  virtual HttpCallId Begin(const HttpUrl& server, const HttpAsk& ask, Duration silence,
                           HttpCallUser& user) = 0;
  // The connection closes, which tells the server too. A call that has ended is no failure.
  virtual void Cancel(HttpCallId call) = 0;
};

}  // namespace tidemill
