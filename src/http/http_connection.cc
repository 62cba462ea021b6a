#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <cstdio>
#include <optional>
#include <utility>

#include "core/log.h"
#include "http/http_connection.h"
#include "http/request_head.h"

namespace tidemill {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kGoneAfterMs = 30'000;  // unacknowledged for so long: the other side is gone
constexpr size_t kPieceBytes = 16 * 1024;

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

}  // namespace

Connection::Connection(HttpServer::Core& core, tcp::socket socket,
                       std::shared_ptr<HttpEntrance> entrance)
    : core_(core), entrance_(std::move(entrance)), stream_(std::move(socket)) {
  ++core_.connections;
  if (entrance_) ++entrance_->open;
  NoticeDeadPeers(static_cast<int>(stream_.socket().native_handle()));
  error_code ignored;
  stream_.socket().non_blocking(true, ignored);  // see WriteReply
}

Connection::~Connection() {
  EndWaiting();
  EndEvents();
  EndReply();
  --core_.connections;
  if (entrance_) --entrance_->open;
}

void Connection::BeginWaiting() {
  waiting_ = core_.waiting.insert(core_.waiting.end(), this);
}

void Connection::EndWaiting() {
  if (waiting_) core_.waiting.erase(*waiting_);
  waiting_.reset();
}

void Connection::ReadNext() {
  BeginWaiting();
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(core_.options.header_bytes_max));
  parser_->body_limit(boost::none);  // the route's, once the head is known
  response_.reset();
  body_room_.reset();
  request_ = {};
  request_.entrance = entrance_ ? entrance_->number : 0;
  head_ = false;
  if (buffer_.size() > 0) return ReadHead();
  // The first byte may take its time on a connection that is kept; the rest may not.
  stream_.expires_after(first_ ? core_.options.request_timeout : core_.options.idle_timeout);
  first_ = false;
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](error_code error, size_t n) {
                            self->buffer_.commit(n);
                            if (error) return self->Close();
                            self->ReadHead();
                          });
}

void Connection::ReadHead() {
  stream_.expires_after(core_.options.request_timeout);
  ParseHead();
}

// The parser is shown what came only after the bytes themselves were looked at.
void Connection::ParseHead() {
  const auto bytes = buffer_.data();
  if (const auto fault = CheckHeadBytes({static_cast<const char*>(bytes.data()), bytes.size()})) {
    EndWaiting();
    return Refuse(fault->status, fault->why);
  }
  error_code error;
  buffer_.consume(parser_->put(bytes, error));
  if (error == http::error::need_more) error = {};
  if (error || parser_->is_header_done()) return OnHead(error);
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](error_code failed, size_t n) {
                            self->buffer_.commit(n);
                            if (failed) return self->Close();
                            self->ParseHead();
                          });
}

bool Connection::ReadOk(error_code error) {
  if (!error) return true;
  if (error == http::error::header_limit) {
    Refuse(431, "the header is too large");
  } else if (error == http::error::body_limit) {
    Refuse(413, TooLarge());
  } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    Refuse(400, "not a valid HTTP request: " + error.message());
  } else {
    Close();
  }
  return false;
}

void Connection::OnHead(error_code error) {
  EndWaiting();
  if (!ReadOk(error)) return;
  ++core_.requests;
  if (const auto fault = CheckRequestHead(parser_->get())) {
    return Refuse(fault->status, fault->why);
  }
  const auto& message = parser_->get();
  head_ = message.method() == http::verb::head;
  if (!TakeHead()) return;
  route_ = core_.handlers.route ? core_.handlers.route(request_) : HttpRoute{};
  if (route_.refusal) {
    keep_alive_ = parser_->is_done() && message.keep_alive();
    return Send(std::move(*route_.refusal));
  }
  request_.hold = std::move(route_.hold);
  if (route_.body_bytes_max == 0) route_.body_bytes_max = core_.options.body_bytes_max;
  OpenBody();
}

bool Connection::TakeHead() {
  const auto& message = parser_->get();
  request_.method = View(message.method_string());
  const bool reads = request_.method == "GET" || request_.method == "HEAD";
  const bool changes = request_.method == "PUT" || request_.method == "DELETE";
  const bool asks_first = request_.method == "OPTIONS" && core_.options.other_origins;
  if (!reads && request_.method != "POST" && !asks_first && !(changes && core_.options.changes)) {
    Refuse(405, core_.options.changes ? "only GET, HEAD, POST, PUT and DELETE are supported"
                                      : "only GET, HEAD and POST are supported");
    return false;
  }
  if (const Status status = ParseTarget(View(message.target()), request_); !status.ok()) {
    Refuse(400, status.message());
    return false;
  }
  if (core_.loopback && !HostIsLoopback(View(message[http::field::host]))) {
    Refuse(403, "this server answers only to localhost and 127.0.0.1");
    return false;
  }
  for (const auto& field : message) {
    std::string name(View(field.name_string()));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string& value = request_.headers[std::move(name)];
    if (!value.empty()) value += ", ";
    value += View(field.value());
  }
  if (core_.loopback && !core_.options.other_origins && !reads && FromAForeignPage(request_)) {
    Refuse(403, "a page of another origin may not post here");
    return false;
  }
  return true;
}

// What is announced takes no room: only what has arrived does, as it arrives.
void Connection::OpenBody() {
  const auto length = parser_->content_length();
  if (length && *length > route_.body_bytes_max) return Refuse(413, TooLarge());
  if (parser_->is_done()) return Dispatch();
  parser_->body_limit(route_.body_bytes_max);
  body_room_ = std::make_unique<BodyBudget::Room>(core_.bodies, Owner());
  piece_.resize(kPieceBytes);
  if (parser_->get().count(http::field::expect) == 0) return ReadBody();
  static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kGoOn.data(), kGoOn.size()),
                    [self = shared_from_this()](error_code error, size_t) {
                      if (error) return self->Close();
                      self->ReadBody();
                    });
}

void Connection::ReadBody() {
  auto& body = parser_->get().body();
  body.data = piece_.data();
  body.size = piece_.size();
  body.more = true;
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](error_code error, size_t) { self->OnBody(error); });
}

void Connection::OnBody(error_code error) {
  if (error == http::error::need_buffer) error = {};  // the piece is full
  if (!ReadOk(error)) return;
  const size_t arrived = piece_.size() - parser_->get().body().size;
  if (!body_room_->Grow(arrived)) return RefuseForNow("too many large requests at once");
  request_.body.append(piece_, 0, arrived);
  if (!parser_->is_done()) return ReadBody();
  piece_ = {};
  Dispatch();
}

std::string Connection::TooLarge() const {
  return "the body is too large: at most " + std::to_string(route_.body_bytes_max) +
         " bytes are read";
}

void Connection::Dispatch() {
  keep_alive_ = parser_->get().keep_alive();
  if (route_.serve) return Serve();
  request_.admin = core_.tokens.Accept(request_.Header("authorization"));
  if (!request_.admin && !core_.tokens.empty() && NeedsToken(request_.path)) {
    HttpResponse response =
        ErrorResponse(401, "a bearer token is required: Authorization: Bearer TOKEN");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return Send(std::move(response));
  }
  request_.last_event_id = request_.Header("last-event-id");
  if (request_.path == kEventsPath && request_.method == "GET" && core_.handlers.open_stream) {
    return OpenEvents(std::move(request_));
  }
  Answer(std::move(request_));
}

void Connection::Answer(HttpRequest request) {
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

HttpResponse Connection::Refusal(int status, std::string_view why) const {
  return core_.handlers.refuse ? core_.handlers.refuse(request_, status, why)
                               : ErrorResponse(status, why);
}

void Connection::Refuse(int status, std::string_view why) {
  keep_alive_ = false;
  Send(Refusal(status, why));
}

void Connection::RefuseForNow(std::string_view why) {
  HttpResponse busy = Refusal(503, why);
  busy.headers.emplace_back("Retry-After", "1");
  keep_alive_ = false;
  Send(std::move(busy));
}

void Connection::Send(HttpResponse answer) {
  const auto& headers = SecurityHeaders();
  request_.hold.reset();  // to be told needs no place
  response_.emplace(static_cast<http::status>(answer.status), 11);
  for (const auto& [name, value] : headers) response_->set(name, value);
  response_->set(http::field::content_type, answer.content_type);
  response_->set(http::field::cache_control, "no-store");
  for (const auto& [name, value] : answer.headers) response_->set(name, OneHeaderValue(value));
  response_->keep_alive(keep_alive_);
  response_->content_length(answer.body.size());
  if (!head_) response_->body() = std::move(answer.body);
  stream_.expires_after(core_.options.write_timeout);
  http::async_write(stream_, *response_, [self = shared_from_this()](error_code error, size_t) {
    if (error) return self->Close();
    self->EndExchange();
  });
}

void Connection::CloseGently() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  stream_.expires_after(std::min(core_.options.request_timeout, std::chrono::milliseconds(2000)));
  Drain(64);
}

void Connection::Drain(int reads_left) {
  if (reads_left == 0) return Close();
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this(), reads_left](error_code error, size_t) {
                            if (error) return self->Close();
                            self->Drain(reads_left - 1);
                          });
}

void Connection::Close() {
  EndWaiting();
  EndEvents();
  EndReply();
  stream_.close();
}

bool CloseLongestWaiting(HttpServer::Core& core) {
  if (core.waiting.empty()) return false;
  core.waiting.front()->Close();
  return true;
}

void ServeConnection(HttpServer::Core& core, tcp::socket socket,
                     std::shared_ptr<HttpEntrance> entrance) {
  std::make_shared<Connection>(core, std::move(socket), std::move(entrance))->ReadNext();
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

namespace {

constexpr size_t kSentAheadMax = 64 * 1024;  // of a next request while one is answered

}  // namespace

void Connection::Serve() {
  std::weak_ptr<Connection> weak = weak_from_this();
  reply_ = std::make_shared<ReplyPipe>([weak, &io = core_.io] {
    boost::asio::post(io, [weak] {
      if (const auto self = weak.lock()) self->WriteReply();
    });
  });
  core_.replies.insert(reply_);
  const bool begun = OnWorker(
      [&core = core_, request = std::move(request_),
       writer = ReplyPipe::WriterOf(reply_)]() mutable {
        try {
          core.handlers.serve(std::move(request), std::move(writer));
        } catch (const std::exception& error) {
          LogError("a request failed", {{"error", error.what()}});
        }
        return true;
      },
      [](Connection&, bool) {});
  if (begun) return WatchClient();
  EndReply();
}

void Connection::WatchClient() {
  watching_ = true;
  stream_.expires_never();
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](boost::system::error_code error, size_t n) {
                            self->OnWatched(error, n);
                          });
}

void Connection::OnWatched(boost::system::error_code error, size_t n) {
  watching_ = false;
  buffer_.commit(n);
  const bool stopped = error == boost::asio::error::operation_aborted && after_watch_;
  if ((error && !stopped) || buffer_.size() > kSentAheadMax) return Close();
  if (const auto next = std::exchange(after_watch_, nullptr)) return (this->*next)();
  WatchClient();
}

void Connection::WriteReply() {
  while (reply_ && !writing_ && WritePiece()) {
  }
}

bool Connection::WritePiece() {
  ReplyPipe::Piece piece = reply_->Take();
  if (piece.whole) {
    SendReply(std::move(*piece.whole));
    return false;
  }
  std::string out;
  if (piece.head) out = StreamHead(*piece.head);
  if (!piece.bytes.empty() && !head_) AppendChunk(piece.bytes, out);
  // A stream that is cut must not look complete.
  if (piece.cut && chunked_) {
    Close();
    return false;
  }
  const bool last = piece.ended || piece.cut;
  if (last && chunked_ && !head_) out += "0\r\n\r\n";
  if (out.empty() && !last) return false;
  writing_ = true;
  frame_ = std::move(out);
  // Nearly always the socket has room: no timer and no second turn of the io thread for a token.
  boost::system::error_code error;
  const size_t written = stream_.socket().write_some(boost::asio::buffer(frame_), error);
  if (!error && written == frame_.size()) return OnWritten(error, last);
  stream_.expires_after(core_.options.write_timeout);
  boost::asio::async_write(
      stream_, boost::asio::buffer(frame_) + written,
      [self = shared_from_this(), last](boost::system::error_code failed, size_t) {
        if (self->OnWritten(failed, last)) self->WriteReply();
      });
  return false;
}

bool Connection::OnWritten(boost::system::error_code error, bool last) {
  writing_ = false;
  frame_.clear();
  // The client may have left while what it was sent was still on its way here.
  if (error || !reply_) {
    Close();
  } else if (last) {
    EndExchange();
  } else {
    reply_->Taken();
    return true;
  }
  return false;
}

std::string Connection::StreamHead(const HttpResponse& head) {
  const unsigned version = parser_->get().version();
  chunked_ = version >= 11;
  keep_alive_ = keep_alive_ && chunked_;
  std::string text = "HTTP/1.1 " + std::to_string(head.status) + " " +
                     std::string(boost::beast::http::obsolete_reason(
                         boost::beast::http::int_to_status(static_cast<unsigned>(head.status)))) +
                     "\r\n";
  for (const auto& [name, value] : SecurityHeaders()) text += name + ": " + value + "\r\n";
  for (const auto& [name, value] : head.headers)
    text += name + ": " + OneHeaderValue(value) + "\r\n";
  text += "Content-Type: " + head.content_type + "\r\nCache-Control: no-store\r\n";
  if (chunked_) text += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive_) text += "Connection: close\r\n";
  return text + "\r\n";
}

void Connection::AppendChunk(const std::string& bytes, std::string& out) const {
  if (!chunked_) {
    out += bytes;
    return;
  }
  char size[20];
  const int n = std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
  out.append(size, static_cast<size_t>(n)).append(bytes).append("\r\n");
}

void Connection::SendReply(HttpResponse response) {
  writing_ = true;
  Send(std::move(response));
}

void Connection::EndReply() {
  if (!reply_) return;
  reply_->Leave();
  core_.replies.erase(reply_);
  reply_.reset();
  writing_ = chunked_ = false;
}

void Connection::EndExchange() {
  EndReply();
  const auto next = keep_alive_ ? &Connection::ReadNext : &Connection::CloseGently;
  if (!watching_) return (this->*next)();
  after_watch_ = next;
  stream_.cancel();
}

void Connection::OpenEvents(HttpRequest request) {
  if (core_.open_streams >= core_.options.streams_max) {
    return Send(ErrorResponse(503, "too many event streams are open"));
  }
  std::weak_ptr<Connection> weak = weak_from_this();
  events_ = std::make_shared<EventStream>(core_.options.stream_bytes_max, [weak, &io = core_.io] {
    boost::asio::post(io, [weak] {
      if (const auto self = weak.lock()) self->WriteEvents();
    });
  });
  ++core_.open_streams;
  core_.streams.insert(events_);
  const bool begun =
      OnWorker([&core = core_, request = std::move(request),
                events = events_] { return core.handlers.open_stream(request, events); },
               [](Connection& self, const Status& status) {
                 if (status.ok()) return self.BeginEvents();
                 self.EndEvents();
                 self.Send(ErrorResponse(status));
               });
  if (!begun) EndEvents();
}

void Connection::BeginEvents() {
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

void Connection::WatchForEnd() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(512),
                          [self = shared_from_this()](boost::system::error_code error, size_t) {
                            if (error) return self->Close();
                            self->WatchForEnd();
                          });
}

void Connection::WriteEvents() {
  if (!events_ || !outgoing_.empty() || !streaming_) return CheckBehind();
  outgoing_ = events_->Take();
  if (!outgoing_.empty()) WriteOutgoing();
  CheckBehind();
}

void Connection::CheckBehind() {
  if (events_ && events_->fell_behind()) Close();
}

void Connection::WriteOutgoing() {
  streaming_ = true;
  std::vector<boost::asio::const_buffer> buffers;
  for (const auto& frame : outgoing_) buffers.push_back(boost::asio::buffer(*frame));
  stream_.expires_after(core_.options.write_timeout);
  boost::asio::async_write(stream_, buffers,
                           [self = shared_from_this()](boost::system::error_code error, size_t) {
                             self->outgoing_.clear();
                             if (error) return self->Close();
                             self->WriteEvents();
                           });
}

void Connection::EndEvents() {
  if (!events_) return;
  events_->Close();
  core_.streams.erase(events_);
  events_.reset();
  --core_.open_streams;
}

}  // namespace tidemill
