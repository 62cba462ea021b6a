// HttpCalls over TCP: one thread, a connection for each call under way, kept for the next one.
#pragma once

#include <functional>
#include <memory>

#include "http/http_calls.h"

namespace boost::asio {
class io_context;
}

namespace tidemill {

// Plain HTTP only. All of it belongs to the thread that calls Run, but for Wake and Stop.
class HttpPool final : public HttpCalls {
 public:
  HttpPool();
  ~HttpPool() override;

  // Carries calls until Stop. `step` is called after what arrived, and at the latest at the time it
  // returned last.
  void Run(const std::function<Time()>& step);
  // From any thread: `step` is called soon; Run returns.
  void Wake();
  void Stop();

  HttpCallId Begin(const HttpUrl& server, const HttpAsk& ask, Duration silence,
                   HttpCallUser& user) override;
  void Cancel(HttpCallId call) override;

  uint64_t connections() const;  // opened so far
  // What runs on the same thread (TcpStreams) uses it.
  boost::asio::io_context& io();

 private:
  class Connection;
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tidemill
