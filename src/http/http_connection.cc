#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <optional>

#include "core/log.h"
#include "http/http_core.h"
#include "http/request_head.h"

namespace tidemill {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kGoneAfterMs = 30'000;  // unacknowledged for so long: the other side is gone

void NoticeDeadPeers(int fd) {
  const int on = 1, idle_s = 30, gone_ms = kGoneAfterMs;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_ms, sizeof(gone_ms));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

std::string_view View(beast::string_view text) {
  return {text.data(), text.size()};
}

// Lives while an operation of it is under way. All on the io thread, but for Answer's handler.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpServer::Core& core, tcp::socket socket) : core_(core), stream_(std::move(socket)) {
    ++core_.connections;
    NoticeDeadPeers(static_cast<int>(stream_.socket().native_handle()));
  }
  ~Connection() {
    EndEvents();
    --core_.connections;
  }

  void ReadNext() {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(core_.options.header_bytes_max));
    parser_->body_limit(core_.options.body_bytes_max);
    response_.reset();
    if (buffer_.size() > 0) return ReadRequest();
    // The first byte may take its time on a connection that is kept; the rest may not.
    stream_.expires_after(first_ ? core_.options.request_timeout : core_.options.idle_timeout);
    first_ = false;
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this()](error_code error, size_t n) {
                              self->buffer_.commit(n);
                              if (error) return self->Close();
                              self->ReadRequest();
                            });
  }

 private:
  void ReadRequest() {
    stream_.expires_after(core_.options.request_timeout);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, size_t) { self->OnRead(error); });
  }

  void OnRead(error_code error) {
    if (error == http::error::header_limit) return Refuse(431, "the header is too large");
    if (error == http::error::body_limit) return Refuse(413, "the body is too large");
    if (error && error.category() == http::make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      return Refuse(400, "not a valid HTTP request: " + error.message());
    }
    if (error) return Close();
    ++core_.requests;
    if (const Status head = CheckRequestHead(parser_->get()); !head.ok()) {
      return Refuse(400, head.message());
    }
    Dispatch();
  }

  void Dispatch() {
    const auto& message = parser_->get();
    keep_alive_ = message.keep_alive();
    head_ = message.method() == http::verb::head;
    HttpRequest request;
    request.method = View(message.method_string());
    if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
      return Send(ErrorResponse(405, "only GET, HEAD and POST are supported"));
    }
    if (const Status status = ParseTarget(View(message.target()), request); !status.ok()) {
      return Send(ErrorResponse(status));
    }
    if (core_.loopback && !HostIsLoopback(View(message[http::field::host]))) {
      return Send(ErrorResponse(403, "this server answers only to localhost and 127.0.0.1"));
    }
    request.admin = core_.tokens.Accept(View(message[http::field::authorization]));
    if (!request.admin && !core_.tokens.empty() && NeedsToken(request.path)) {
      HttpResponse response =
          ErrorResponse(401, "a bearer token is required: Authorization: Bearer TOKEN");
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return Send(std::move(response));
    }
    request.last_event_id = View(message["Last-Event-ID"]);
    request.body = message.body();
    if (request.path == kEventsPath && request.method == "GET")
      return OpenEvents(std::move(request));
    Answer(std::move(request));
  }

  // Runs `work` on a worker and `then` with what it gave back on the io thread.
  template <typename Work, typename Then>
  void OnWorker(Work work, Then then) {
    if (core_.pending >= core_.options.pending_max) {
      HttpResponse busy = ErrorResponse(503, "too many requests are waiting");
      busy.headers.emplace_back("Retry-After", "1");
      return Send(std::move(busy));
    }
    ++core_.pending;
    asio::post(core_.pool, [self = shared_from_this(), work = std::move(work),
                            then = std::move(then)]() mutable {
      GiveWay();
      auto result = work();
      --self->core_.pending;
      auto& io = self->core_.io;
      asio::post(io, [self = std::move(self), then = std::move(then),
                      result = std::move(result)]() mutable { then(*self, std::move(result)); });
    });
  }

  void Answer(HttpRequest request) {
    OnWorker(
        [&core = core_, request = std::move(request)] {
          try {
            return core.handlers.answer(request);
          } catch (const std::exception& error) {
            LogError("a request failed", {{"path", request.path}, {"error", error.what()}});
            return ErrorResponse(500, error.what());
          }
        },
        [](Connection& self, HttpResponse response) { self.Send(std::move(response)); });
  }

  void Refuse(int status, std::string_view why) {
    keep_alive_ = false;
    Send(ErrorResponse(status, why));
  }

  void Send(HttpResponse answer) {
    const auto& headers = SecurityHeaders();
    response_.emplace(static_cast<http::status>(answer.status), 11);
    for (const auto& [name, value] : headers) response_->set(name, value);
    response_->set(http::field::content_type, answer.content_type);
    response_->set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : answer.headers) response_->set(name, value);
    response_->keep_alive(keep_alive_);
    response_->content_length(answer.body.size());
    if (!head_) response_->body() = std::move(answer.body);
    stream_.expires_after(core_.options.write_timeout);
    http::async_write(stream_, *response_, [self = shared_from_this()](error_code error, size_t) {
      if (error) return self->Close();
      if (!self->keep_alive_) return self->CloseGently();
      self->ReadNext();
    });
  }

  // A client still sending must get to read the answer, so the end is announced and what comes is
  // thrown away, for a while.
  void CloseGently() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(std::min(core_.options.request_timeout, std::chrono::milliseconds(2000)));
    Drain(64);
  }

  void Drain(int reads_left) {
    if (reads_left == 0) return Close();
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this(), reads_left](error_code error, size_t) {
                              if (error) return self->Close();
                              self->Drain(reads_left - 1);
                            });
  }

  void OpenEvents(HttpRequest request) {
    if (core_.open_streams >= core_.options.streams_max) {
      return Send(ErrorResponse(503, "too many event streams are open"));
    }
    std::weak_ptr<Connection> weak = weak_from_this();
    events_ = std::make_shared<EventStream>(core_.options.stream_bytes_max, [weak, &io = core_.io] {
      asio::post(io, [weak] {
        if (const auto self = weak.lock()) self->WriteEvents();
      });
    });
    ++core_.open_streams;
    core_.streams.insert(events_);
    OnWorker([&core = core_, request = std::move(request),
              events = events_] { return core.handlers.open_stream(request, events); },
             [](Connection& self, const Status& status) {
               if (status.ok()) return self.BeginEvents();
               self.EndEvents();
               self.Send(ErrorResponse(status));
             });
    if (response_) EndEvents();  // refused: no worker has time
  }

  void BeginEvents() {
    std::string head = "HTTP/1.1 200 OK\r\n";
    for (const auto& [name, value] : SecurityHeaders()) head += name + ": " + value + "\r\n";
    head +=
        "Content-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        "retry: 1000\n\n";
    outgoing_ = {std::make_shared<const std::string>(std::move(head))};
    stream_.expires_never();
    WatchForEnd();
    WriteOutgoing();
  }

  // Nothing is expected from the client any more; a read tells when it leaves.
  void WatchForEnd() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(512),
                            [self = shared_from_this()](error_code error, size_t) {
                              if (error) return self->Close();
                              self->WatchForEnd();
                            });
  }

  void WriteEvents() {
    if (!events_ || !outgoing_.empty() || !streaming_) return CheckBehind();
    outgoing_ = events_->Take();
    if (!outgoing_.empty()) WriteOutgoing();
    CheckBehind();
  }

  void CheckBehind() {
    if (events_ && events_->fell_behind()) Close();
  }

  void WriteOutgoing() {
    streaming_ = true;
    std::vector<asio::const_buffer> buffers;
    for (const auto& frame : outgoing_) buffers.push_back(asio::buffer(*frame));
    stream_.expires_after(core_.options.write_timeout);
    asio::async_write(stream_, buffers, [self = shared_from_this()](error_code error, size_t) {
      self->outgoing_.clear();
      if (error) return self->Close();
      self->WriteEvents();
    });
  }

  void EndEvents() {
    if (!events_) return;
    events_->Close();
    core_.streams.erase(events_);
    events_.reset();
    --core_.open_streams;
  }

  void Close() {
    EndEvents();
    stream_.close();
  }

  HttpServer::Core& core_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{256 * 1024};
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  bool first_ = true;
  bool keep_alive_ = false;
  bool head_ = false;
  std::shared_ptr<EventStream> events_;  // shared with those who send
  std::vector<std::shared_ptr<const std::string>> outgoing_;
  bool streaming_ = false;  // the head of the answer was written
};

}  // namespace

void ServeConnection(HttpServer::Core& core, tcp::socket socket) {
  std::make_shared<Connection>(core, std::move(socket))->ReadNext();
}

std::string RefusalText() {
  return "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
         "Connection: close\r\n\r\n";
}

const std::vector<std::pair<std::string, std::string>>& SecurityHeaders() {
  static const std::vector<std::pair<std::string, std::string>> headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
  };
  return headers;
}

}  // namespace tidemill
