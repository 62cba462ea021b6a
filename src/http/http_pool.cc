#include "http/http_pool.h"

#include <array>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/field.hpp>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/fd.h"

namespace tidemill {
namespace {

namespace pool_asio = boost::asio;
namespace pool_http = boost::beast::http;
using PoolTcp = boost::asio::ip::tcp;
using PoolError = boost::system::error_code;
using PoolText = boost::beast::string_view;

constexpr size_t kReadBytes = 8 * 1024;
constexpr size_t kIdleMax = 1024;  // connections kept for one server
constexpr Duration kSweepEvery = milliseconds(250);

// Reads the head, and gives the body away as it comes.
class PieceParser final : public pool_http::basic_parser<false> {
 public:
  PieceParser() {
    eager(true);
    body_limit(boost::none);
  }
  int status() const { return status_; }
  std::string TakeBody() { return std::exchange(body_, {}); }
  // Once, when the head is whole; before and after, empty.
  std::vector<std::pair<std::string, std::string>> TakeFields() {
    if (!is_header_done()) return {};
    return std::exchange(fields_, {});
  }

 private:
  void on_request_impl(pool_http::verb, PoolText, PoolText, int, PoolError&) override {}
  void on_response_impl(int code, PoolText, int, PoolError&) override { status_ = code; }
  void on_field_impl(pool_http::field, PoolText name, PoolText value, PoolError&) override {
    std::string lower(name);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    fields_.emplace_back(std::move(lower), std::string(value));
  }
  void on_header_impl(PoolError&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, PoolError&) override {}
  size_t on_body_impl(PoolText body, PoolError&) override {
    body_.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(uint64_t, PoolText, PoolError&) override {}
  size_t on_chunk_body_impl(uint64_t, PoolText body, PoolError&) override {
    body_.append(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(PoolError&) override {}

  int status_ = 0;
  std::string body_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

std::string RequestText(const HttpUrl& server, const HttpAsk& ask) {
  std::string text = ask.method + " " + ask.target + " HTTP/1.1\r\nHost: " + server.Authority();
  for (const auto& [name, value] : ask.headers) text += "\r\n" + name + ": " + value;
  text += "\r\nContent-Length: " + std::to_string(ask.body.size()) + "\r\n\r\n";
  return text + ask.body;
}

std::string Reason(const PoolError& error) {
  if (error == pool_asio::error::eof) return "it closed the connection";
  return error.message();
}

}  // namespace

class HttpPool::Core {
 public:
  pool_asio::io_context io{1};
  PoolTcp::resolver resolver{io};
  std::unordered_map<HttpCallId, std::shared_ptr<Connection>> calls;
  std::map<std::string, std::vector<std::shared_ptr<Connection>>> idle;  // by server
  HttpCallId next_call = 1;
  uint64_t connections = 0;
  std::atomic<bool> stopped{false};
  Time sweep_at = Time::min();

  // Ends what was silent for too long.
  void Sweep(Time now);
};

// One connection and the call on it. Kept alive by the operation it waits for.
class HttpPool::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Core& core, HttpUrl server)
      : core_(core), server_(std::move(server)), socket_(core.io) {}

  void Start(HttpCallId call, std::string request, Duration silence, HttpCallUser& user) {
    call_ = call;
    user_ = &user;
    silence_ = silence;
    request_ = std::move(request);
    parser_.emplace();
    rest_.clear();
    heard_ = std::chrono::steady_clock::now();
    reused_ = socket_.is_open();
    if (reused_) return Write();
    Connect();
  }

  // Nothing is told any more.
  void Drop() {
    call_ = 0;
    PoolError ignored;
    socket_.close(ignored);
  }

  void Fail(const std::string& why) {
    if (call_ == 0) return;
    const HttpCallId call = call_;
    HttpCallUser* user = user_;
    const std::shared_ptr<Connection> self = shared_from_this();
    Drop();
    core_.calls.erase(call);
    user->OnEnd(call, Unavailable(server_.Authority() + ": " + why));
  }

  bool Silent(Time now) const { return now - heard_ >= silence_; }
  bool idle() const { return call_ == 0; }
  const HttpUrl& server() const { return server_; }

  // While nothing is asked: a server that closes is found out before the next call.
  void Rest() {
    socket_.async_wait(PoolTcp::socket::wait_read, [self = shared_from_this()](PoolError error) {
      if (error || !self->idle()) return;
      self->Leave();
    });
  }

 private:
  void Connect() {
    PoolError error;
    const auto address = pool_asio::ip::make_address(server_.host, error);
    if (error) {
      core_.resolver.async_resolve(
          server_.host, server_.port,
          [self = shared_from_this(), call = call_](PoolError failed, const auto& found) {
            if (self->call_ != call) return;
            if (failed) return self->Fail(failed.message());
            self->ConnectTo({found.begin(), found.end()});
          });
      return;
    }
    ConnectTo({PoolTcp::endpoint(address, static_cast<uint16_t>(std::stoi(server_.port)))});
  }

  void ConnectTo(std::vector<PoolTcp::endpoint> found) {
    auto places = std::make_shared<std::vector<PoolTcp::endpoint>>(std::move(found));
    pool_asio::async_connect(
        socket_, *places,
        [self = shared_from_this(), places, call = call_](PoolError error, const auto&) {
          if (self->call_ != call) return;
          if (error) return self->Fail(error.message());
          ++self->core_.connections;
          (void)CloseOnExec(self->socket_.native_handle());
          PoolError ignored;
          self->socket_.set_option(PoolTcp::no_delay(true), ignored);
          self->Write();
        });
  }

  void Write() {
    pool_asio::async_write(socket_, pool_asio::buffer(request_),
                           [self = shared_from_this(), call = call_](PoolError error, size_t) {
                             if (self->call_ == call && error) self->Broken(error);
                           });
    Read();
  }

  void Read() {
    socket_.async_read_some(pool_asio::buffer(input_), [self = shared_from_this(), call = call_](
                                                           PoolError error, size_t bytes) {
      if (self->call_ == call) self->OnRead(error, bytes);
    });
  }

  // A connection that was kept may have been closed meanwhile: then the call gets a fresh one.
  void Broken(const PoolError& error) {
    if (!reused_ || parser_->got_some()) return Fail(Reason(error));
    PoolError ignored;
    socket_.close(ignored);
    reused_ = false;
    Connect();
  }

  void OnRead(const PoolError& error, size_t bytes) {
    heard_ = std::chrono::steady_clock::now();
    PoolError wrong;
    if (error) {
      if (error == pool_asio::error::eof && parser_->got_some()) parser_->put_eof(wrong);
      if (wrong || !parser_->is_done()) return Broken(error);
      return Finish(/*keep=*/false);
    }
    if (!Parse({input_.data(), bytes})) return;
    if (parser_->is_done()) return Finish(parser_->keep_alive() && rest_.empty());
    Read();
  }

  // False: the call ended meanwhile.
  bool Parse(std::string_view bytes) {
    if (!rest_.empty()) {
      rest_.append(bytes);
      bytes = rest_;
    }
    PoolError error;
    size_t taken = 0;
    while (taken < bytes.size() && !parser_->is_done()) {
      const size_t n =
          parser_->put(pool_asio::const_buffer(bytes.data() + taken, bytes.size() - taken), error);
      taken += n;
      if (error == pool_http::error::need_more) error = {};
      if (error || n == 0) break;
    }
    std::string left(bytes.substr(taken));
    rest_ = std::move(left);
    if (error) {
      Fail("its answer is no HTTP: " + error.message());
      return false;
    }
    const std::string body = parser_->TakeBody();
    const HttpCallId call = call_;
    const auto fields = parser_->TakeFields();
    if (!fields.empty()) user_->OnHead(call, fields);
    if (call_ != call) return false;
    if (!body.empty()) user_->OnPiece(call, parser_->status(), body);
    return call_ == call;
  }

  void Finish(bool keep) {
    const HttpCallId call = std::exchange(call_, 0);
    const int status = parser_->status();
    core_.calls.erase(call);
    auto& others = core_.idle[server_.Authority()];
    if (keep && others.size() < kIdleMax) {
      others.push_back(shared_from_this());
      Rest();
    } else {
      PoolError ignored;
      socket_.close(ignored);
    }
    user_->OnEnd(call, status);
  }

  void Leave() {
    auto& others = core_.idle[server_.Authority()];
    std::erase(others, shared_from_this());
    PoolError ignored;
    socket_.close(ignored);
  }

  Core& core_;
  const HttpUrl server_;
  PoolTcp::socket socket_;
  HttpCallId call_ = 0;  // 0: none is under way
  HttpCallUser* user_ = nullptr;
  Duration silence_{};
  Time heard_{};
  bool reused_ = false;  // and nothing of this answer has come
  std::string request_;
  std::optional<PieceParser> parser_;
  std::string rest_;  // read and not yet parsed
  std::array<char, kReadBytes> input_;
};

void HttpPool::Core::Sweep(Time now) {
  if (now < sweep_at) return;
  sweep_at = now + kSweepEvery;
  std::vector<std::shared_ptr<Connection>> silent;
  for (const auto& [id, connection] : calls) {
    if (connection->Silent(now)) silent.push_back(connection);
  }
  for (const auto& connection : silent) connection->Fail("no answer in time");
}

HttpPool::HttpPool() : core_(std::make_unique<Core>()) {}

HttpPool::~HttpPool() {
  for (auto& [id, connection] : core_->calls) connection->Drop();
  for (auto& [server, connections] : core_->idle) {
    for (auto& connection : connections) connection->Drop();
  }
  core_->calls.clear();
  core_->idle.clear();
}

void HttpPool::Run(const std::function<Time()>& step) {
  const auto work = pool_asio::make_work_guard(core_->io);
  while (!core_->stopped) {
    const Time asked = step();
    const Time now = std::chrono::steady_clock::now();
    core_->Sweep(now);
    const Time until = core_->calls.empty() ? asked : std::min(asked, core_->sweep_at);
    if (until == kNever) {
      core_->io.run_one();
    } else {
      core_->io.run_one_until(until);
    }
    core_->io.poll();
  }
}

void HttpPool::Wake() {
  pool_asio::post(core_->io, [] {});
}

void HttpPool::Stop() {
  core_->stopped = true;
  Wake();
}

HttpCallId HttpPool::Begin(const HttpUrl& server, const HttpAsk& ask, Duration silence,
                           HttpCallUser& user) {
  TM_CHECK(!server.tls, "who reads the address refuses https");
  const HttpCallId call = core_->next_call++;
  std::shared_ptr<Connection> connection;
  auto& idle = core_->idle[server.Authority()];
  if (!idle.empty()) {
    connection = std::move(idle.back());
    idle.pop_back();
  } else {
    connection = std::make_shared<Connection>(*core_, server);
  }
  core_->calls.emplace(call, connection);
  connection->Start(call, RequestText(server, ask), silence, user);
  return call;
}

void HttpPool::Cancel(HttpCallId call) {
  const auto it = core_->calls.find(call);
  if (it == core_->calls.end()) return;
  it->second->Drop();
  core_->calls.erase(it);
}

boost::asio::io_context& HttpPool::io() {
  return core_->io;
}

uint64_t HttpPool::connections() const {
  return core_->connections;
}

}  // namespace tidemill
