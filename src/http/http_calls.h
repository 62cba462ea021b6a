// Many HTTP calls at once. Each answer comes in pieces as they arrive, and nothing waits.
//
//   Begin(call) -> OnPiece, OnPiece, .. -> OnEnd      or Cancel: nothing more comes
#pragma once

#include <cstdint>
#include <string_view>

#include "core/clock.h"
#include "core/status.h"
#include "http/http_peer.h"

namespace tidemill {

using HttpCallId = uint64_t;

// Told on the thread that makes the calls, never inside of Begin or Cancel.
class HttpCallUser {
 public:
  virtual ~HttpCallUser() = default;
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
