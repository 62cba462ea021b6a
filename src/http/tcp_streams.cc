#include "http/tcp_streams.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "core/fd.h"

namespace tidemill {
namespace {

using StreamError = boost::system::error_code;
using StreamTcp = boost::asio::ip::tcp;

constexpr size_t kStreamRead = 4 * 1024;  // thousands of them are open at once

}  // namespace

// Kept alive by the operation it waits for.
class TcpStreams::Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(TcpStreams& owner, StreamId id, HttpUrl server, StreamUser& user)
      : owner_(&owner),
        id_(id),
        server_(std::move(server)),
        user_(user),
        resolver_(owner.pool_.io()),
        socket_(owner.pool_.io()) {}

  void Start() {
    resolver_.async_resolve(server_.host, server_.port,
                            [self = shared_from_this()](
                                StreamError error, const StreamTcp::resolver::results_type& to) {
                              if (self->owner_ == nullptr) return;
                              if (error) return self->Lose(error);
                              boost::asio::async_connect(
                                  self->socket_, to, [self](StreamError failed, const auto&) {
                                    if (self->owner_ == nullptr) return;
                                    if (failed) return self->Lose(failed);
                                    (void)CloseOnExec(self->socket_.native_handle());
                                    StreamError ignored;
                                    self->socket_.set_option(StreamTcp::no_delay(true), ignored);
                                    self->connected_ = true;
                                    self->Read();
                                    self->Write();
                                    self->user_.OnOpen(self->id_);
                                  });
                            });
  }

  void Send(std::string bytes) {
    waiting_ += bytes;
    Write();
  }

  void Leave() {
    owner_ = nullptr;
    if (waiting_.empty() && !writing_) Shut();
  }
  void Drop() {
    owner_ = nullptr;
    Shut();
  }

 private:
  void Read() {
    socket_.async_read_some(boost::asio::buffer(input_),
                            [self = shared_from_this()](StreamError error, size_t bytes) {
                              if (self->owner_ == nullptr) return;
                              if (error) return self->Lose(error);
                              self->user_.OnBytes(self->id_, {self->input_.data(), bytes});
                              if (self->owner_ != nullptr) self->Read();
                            });
  }

  void Write() {
    if (writing_ || !connected_ || waiting_.empty()) return;
    writing_ = true;
    output_ = std::exchange(waiting_, {});
    boost::asio::async_write(socket_, boost::asio::buffer(output_),
                             [self = shared_from_this()](StreamError error, size_t) {
                               self->writing_ = false;
                               if (self->owner_ == nullptr && (error || self->waiting_.empty())) {
                                 return self->Shut();
                               }
                               if (error) return self->Lose(error);
                               self->Write();
                             });
  }

  void Lose(const StreamError& error) {
    TcpStreams* const owner = std::exchange(owner_, nullptr);
    if (owner == nullptr) return;
    Shut();
    owner->streams_.erase(id_);
    const std::string why =
        error == boost::asio::error::eof ? "it closed the connection" : error.message();
    user_.OnLost(id_, Unavailable(server_.Authority() + ": " + why));
  }

  void Shut() {
    StreamError ignored;
    socket_.close(ignored);
    resolver_.cancel();
  }

  TcpStreams* owner_;  // null: nothing is told any more
  const StreamId id_;
  const HttpUrl server_;
  StreamUser& user_;
  StreamTcp::resolver resolver_;
  StreamTcp::socket socket_;
  bool connected_ = false;
  bool writing_ = false;
  std::string waiting_, output_;
  std::array<char, kStreamRead> input_;
};

TcpStreams::~TcpStreams() {
  for (auto& [id, stream] : streams_) stream->Drop();
}

StreamId TcpStreams::Open(const HttpUrl& server, StreamUser& user) {
  const StreamId id = next_++;
  const auto stream = std::make_shared<Stream>(*this, id, server, user);
  streams_.emplace(id, stream);
  stream->Start();
  return id;
}

void TcpStreams::Send(StreamId stream, std::string bytes) {
  const auto it = streams_.find(stream);
  if (it != streams_.end() && !bytes.empty()) it->second->Send(std::move(bytes));
}

void TcpStreams::Close(StreamId stream) {
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  it->second->Leave();
  streams_.erase(it);
}

}  // namespace tidemill
