// The answer to a request that takes its time: whole when it is there, or in pieces as they come.
//
//   handler, loops --Send / Begin, Write, End--> ReplyPipe --wake--> Connection --> client
//          <------- notice: the client left, or took all it was behind with ----
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/mutex.h"
#include "http/http_message.h"

namespace tidemill {

// Owned by whoever answers; any thread may call. Either Send once, or Begin once, Write any number
// of times and End once. What is called after the client left has no effect. Destroyed before Send
// or End: the client gets a 500, or a stream that is cut.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void Send(HttpResponse response) = 0;
  // Status, content type and headers; the body is not used.
  virtual void Begin(HttpResponse head) = 0;
  virtual void Write(std::string bytes) = 0;
  virtual void End() = 0;

  // Whether more than `bytes` wait for the client to take them. Nothing bounds them but the writer,
  // who should wait when they are many: true is followed by a notice once all of them were taken.
  virtual bool Behind(size_t bytes) = 0;
  // The client left, or was too slow for too long.
  virtual bool gone() const = 0;
  // `notice` is called when the client is gone (at once where it is already) and when a client that
  // was behind has taken all that waited; from any thread. It must not block, nor call this object.
  virtual void Watch(std::function<void()> notice) = 0;
};

// Both ends of a reply. Thread-safe.
class ReplyPipe {
 public:
  // `wake` tells the connection that something is there to take; never called after Leave.
  explicit ReplyPipe(std::function<void()> wake) : wake_(std::move(wake)) {}

  // The writer's end.
  static std::unique_ptr<HttpReply> WriterOf(std::shared_ptr<ReplyPipe> pipe);

  // The connection's end. What there is to send now.
  struct Piece {
    std::optional<HttpResponse> whole{};
    std::optional<HttpResponse> head{};
    std::string bytes{};
    bool ended = false;
    bool cut = false;  // the writer went away without an end
  };
  Piece Take();
  // The part taken last has been written.
  void Taken();
  // The client is gone, or the answer is complete.
  void Leave();

 private:
  class Writer;
  // `change` needs the lock of the pipe it is given; in a call of a lambda clang 16 takes the wrong
  // argument for that pipe.
  template <typename Change>
  void Put(Change change) TM_NO_THREAD_SAFETY_ANALYSIS;

  mutable Mutex mutex_;
  std::function<void()> wake_ TM_GUARDED_BY(mutex_);
  std::function<void()> notice_ TM_GUARDED_BY(mutex_);
  Piece piece_ TM_GUARDED_BY(mutex_);
  size_t in_flight_ TM_GUARDED_BY(mutex_) = 0;   // bytes taken and not yet written
  bool answered_ TM_GUARDED_BY(mutex_) = false;  // Send or Begin was called
  bool ended_ TM_GUARDED_BY(mutex_) = false;     // nothing more will come
  bool gone_ TM_GUARDED_BY(mutex_) = false;
  bool behind_ TM_GUARDED_BY(mutex_) = false;  // the writer waits for the notice
};

}  // namespace tidemill
