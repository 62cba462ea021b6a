// One client's connection. For http_*.cc only.
//
//   ReadNext -> head -> route -> body -> Dispatch -> Answer, OpenEvents or Serve -> EndExchange
//   -> ReadNext ..
#pragma once

#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/body_budget.h"
#include "http/http_core.h"

namespace tidemill {

// Lives while an operation of it is under way. All on the io thread, but for the handlers.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpServer::Core& core, boost::asio::ip::tcp::socket socket,
             std::shared_ptr<HttpEntrance> entrance);
  ~Connection();

  void ReadNext();
  void Close();

 private:
  // Among those of which one is closed where another needs its place.
  void BeginWaiting();
  void EndWaiting();
  void ReadHead();

  void ParseHead();

  // Whether reading may go on; else the connection is on its way out.
  bool ReadOk(boost::system::error_code error);

  void OnHead(boost::system::error_code error);

  // The request but for its body. False: it was refused.
  bool TakeHead();

  void OpenBody();

  void ReadBody();

  void OnBody(boost::system::error_code error);

  std::string TooLarge() const;

  void Dispatch();

  // Runs `work` on a worker when it is the owner's turn, and `then` with what it gave back on the
  // io thread. False: no worker has time, and the request was refused.
  template <typename Work, typename Then>
  bool OnWorker(Work work, Then then) {
    if (core_.pending >= core_.options.pending_max) {
      RefuseForNow("too many requests are waiting");
      return false;
    }
    ++core_.pending;
    auto task = [self = shared_from_this(), work = std::move(work), then = std::move(then),
                 room = std::move(body_room_)]() mutable {
      if (self->core_.options.give_way) GiveWay();
      auto result = work();
      room.reset();
      --self->core_.pending;
      auto& io = self->core_.io;
      boost::asio::post(io,
                        [self = std::move(self), then = std::move(then),
                         result = std::move(result)]() mutable { then(*self, std::move(result)); });
    };
    if (route_.aside) {
      boost::asio::post(core_.aside, std::move(task));
      return true;
    }
    // Shared: what a queue holds must be copyable, and the work is not.
    const auto shared = std::make_shared<decltype(task)>(std::move(task));
    core_.queue.Push(Owner(), [shared] { (*shared)(); });
    boost::asio::post(core_.pool, [&core = core_] { core.queue.Pop()(); });
    return true;
  }

  RequestOwner Owner() const { return {request_.entrance, route_.tenant}; }

  void Answer(HttpRequest request);

  HttpResponse Refusal(int status, std::string_view why) const;
  void Refuse(int status, std::string_view why);
  void RefuseForNow(std::string_view why);

  // The answer comes from elsewhere, at its own pace.
  void Serve();

  // Tells when the client leaves. What it sends meanwhile is its next request.
  void WatchClient();

  void OnWatched(boost::system::error_code error, size_t n);

  void WriteReply();
  // The bytes to write now. True: it went out at once, and more may be there.
  bool WritePiece();
  // True: the reply goes on.
  bool OnWritten(boost::system::error_code error, bool last);

  std::string StreamHead(const HttpResponse& head);

  void AppendChunk(const std::string& bytes, std::string& out) const;

  void SendReply(HttpResponse response);

  void EndReply();

  void EndExchange();

  void Send(HttpResponse answer);

  // A client still sending must get to read the answer, so the end is announced and what comes is
  // thrown away, for a while.
  void CloseGently();

  void Drain(int reads_left);

  void OpenEvents(HttpRequest request);

  void BeginEvents();

  // Nothing is expected from the client any more; a read tells when it leaves.
  void WatchForEnd();

  void WriteEvents();

  void CheckBehind();

  void WriteOutgoing();

  void EndEvents();

  HttpServer::Core& core_;
  const std::shared_ptr<HttpEntrance> entrance_;  // may be null; shared with the server
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_{256 * 1024};
  std::optional<boost::beast::http::request_parser<boost::beast::http::buffer_body>> parser_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> response_;
  HttpRequest request_;
  HttpRoute route_;
  std::string piece_;                            // of the body, being read
  std::unique_ptr<BodyBudget::Room> body_room_;  // of the body so far; a worker takes it along
  std::optional<std::list<Connection*>::iterator> waiting_;  // in core_.waiting
  bool first_ = true;
  bool keep_alive_ = false;
  bool head_ = false;

  std::shared_ptr<ReplyPipe> reply_;  // shared with who answers
  std::string frame_;                 // on its way to the client
  bool writing_ = false;
  bool chunked_ = false;
  bool watching_ = false;                        // a read waits for the client to leave
  void (Connection::*after_watch_)() = nullptr;  // once that read is called off

  std::shared_ptr<EventStream> events_;  // shared with those who send
  std::vector<std::shared_ptr<const std::string>> outgoing_;
  bool streaming_ = false;  // the head of the answer was written
};

}  // namespace tidemill
