// Connections that stay: bytes both ways on the thread of an HttpPool, for protocols other than
// HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/status.h"
#include "http/http_pool.h"

namespace tidemill {

using StreamId = uint64_t;

// Told on the pool's thread, never inside of Open, Send or Close.
class StreamUser {
 public:
  virtual ~StreamUser() = default;
  virtual void OnOpen(StreamId stream) = 0;
  virtual void OnBytes(StreamId stream, std::string_view bytes) = 0;
  // The last word: no connection, or the other side ended it (kUnavailable).
  virtual void OnLost(StreamId stream, const Status& why) = 0;
};

// Belongs to the thread that runs the pool, which must outlive it.
class TcpStreams {
 public:
  explicit TcpStreams(HttpPool& pool) : pool_(pool) {}
  ~TcpStreams();

  // `user` must outlive the stream.
  StreamId Open(const HttpUrl& server, StreamUser& user);
  // In order. A stream that is lost takes nothing.
  void Send(StreamId stream, std::string bytes);
  // What was sent before is written, if the other side takes it; nothing more is told.
  void Close(StreamId stream);

  size_t open() const { return streams_.size(); }

 private:
  class Stream;
  HttpPool& pool_;
  std::unordered_map<StreamId, std::shared_ptr<Stream>> streams_;  // shared with what it waits for
  StreamId next_ = 1;
};

}  // namespace tidemill
