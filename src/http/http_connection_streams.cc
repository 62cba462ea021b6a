// Answers that take their time: replies in pieces, and streams of events.
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>

#include "core/log.h"
#include "http/http_connection.h"

namespace tidemill {
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
